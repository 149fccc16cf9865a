"""Torture: real nodes and real clients, faults drawn by a seed, and a judge who looks at what is
left.

Its parts:

    plan        what is to be done, and what the algorithm's card says of it
    schedule    which fault, whom, when and for how long
    damage      what a fault does to the stable memory of a node
    links       every link between two nodes, in the hands of whoever wants to cut it
    referee     a process outside the system: the resource that the lock protects
    client      a process that uses the lock, and writes down what it does
    processes   starts and ends all of them
    run         lets the schedule happen
    history     what the processes have written down, as values
    linearise   is there an order in which it could have happened one after the other?
    judge       what was violated; does no input or output
"""
