"""The live runtime: the same algorithm files between operating system processes.

One `Node` (node.py) stands for one machine of a cluster.  It hosts *instances*, each a named copy
of one of the cluster's *services* (service.py): "locks/printer" is one lock of the service "locks",
run by whatever algorithm the service was given. An instance is made of the pure processes of core;
this package only carries events to them and their effects away:

    codec      what goes over the wire, and the refusal of everything else
    handshake  who is at the other end
    tcp        connections to the peers, what is sent per turn of the loop, and what is lost
    storage    stable memory: durable variables, before any message of their step leaves
    timers     delays on the monotonic clock
    record     the events of a node, in the one trace format

All that knows core and traces, and no algorithm and no problem.  Above it, for those who want a
lock and not an algorithm:

    lines      what clients and their node say to each other
    clients    their connections
    desk       where they queue for locks
    watching   who holds what, told to onlookers

These know the problems, mutual exclusion and election, and still no algorithm.
"""
