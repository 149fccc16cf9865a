"""Operation of clusters: start one on this machine, ask every node, join the answers."""
