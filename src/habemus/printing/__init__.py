"""The printing system on its own wire: gRPC, in groups with programs of others.

Clients agree by Ricart and Agrawala who may print, and the printer checks nothing.  The algorithm
is the catalog's, unchanged, run by the steps of the live runtime; only the transport is another
one:

    wire       the protocol, and what is generated from it
    serving    what printer and client have in common as servers
    group      who takes part, and which system of the catalog that is
    transport  messages of the algorithm as calls between clients: a deferred reply is a call that does not return
    client     a process of the algorithm, and the jobs that it asks for
    printer    the printer
    words      what both say to people, in English and Portuguese
"""
