"""The printing system on its own gRPC protocol, in groups with programs of other authors.

Clients agree by Ricart and Agrawala on who may print; the printer has no access control.  The
algorithm is the catalog's, unchanged, and the live runtime steps it; only the transport differs:

    wire       the protocol, and the code generated from it
    serving    the server that printer and client share
    group      the clients of a group, as a system of the catalog
    transport  messages as calls between clients; a deferred reply is a call that has not returned
    client     a process of the algorithm, and its print jobs
    printer    the printer
    words      output for people, in English and Portuguese
"""
