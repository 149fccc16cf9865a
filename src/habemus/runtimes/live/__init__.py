"""The live runtime: the same algorithm files between operating system processes.

One `Node` (`hosting.node`) is one machine of a cluster.  It hosts *instances*, each a named copy of
one of the cluster's *services* (`hosting.service`): "locks/printer" is one lock of the service
"locks", run by the algorithm that the service is configured with.  An instance consists of pure
processes of `core`; this package carries events to them and carries out their effects.

    peers       connections between nodes: handshake, frames, reconnection, TLS
    hosting     the node, its instances, steps, timers and records
    storage     stable memory: stored before any message of the same step leaves
    clients     connections of clients, and the queues of their requests for locks
    monitoring  metrics, probes, logs, and notices to the service manager
    config      cluster.toml

Only `clients` and `hosting` know the problems, mutual exclusion and election.  No module knows an
algorithm.
"""
