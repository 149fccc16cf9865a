"""The checker: the same processes, under every interleaving."""
