"""The checker: runs the processes under every interleaving."""
