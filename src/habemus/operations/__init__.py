"""A cluster as its operator sees it: start one on this machine, ask every node, join the answers."""
