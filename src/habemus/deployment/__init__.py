"""Live services from the catalog: created from names and options, judged and replayed."""
