"""Connections between nodes: handshake, frames, reconnection, TLS."""
