"""The clients of a cluster: blocking, asynchronous, and the protocol that both speak.

Applications import from `habemus`; nothing is imported here, so that `habemus lock` starts quickly.
"""
