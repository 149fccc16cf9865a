"""Connections of clients: their lines, the queues for locks, the watchers."""
