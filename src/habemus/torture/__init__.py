"""Torture: test a lock with real nodes and clients, seeded faults, and a judge of the history.

Its parts:

    plan        the parameters of a torture, and the claims of the algorithm's card
    schedule    the faults: kind, victims, time and duration
    damage      damage to the stable memory of a node
    links       a proxy for every link between two nodes, which can be cut
    referee     a process outside the system: the resource that the lock protects
    client      a process that uses the lock and records what it does
    processes   starts and kills all of them
    run         executes the schedule
    history     the records of the processes, as values
    linearise   search for a sequential order of concurrent operations
    judge       the violations in a history; no input or output
"""
