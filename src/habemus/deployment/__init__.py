"""Live services from the catalog: assembled from a name and options, judged and replayed from their
traces.
"""
