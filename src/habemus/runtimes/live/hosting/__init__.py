"""The node and the processes that it hosts: instances, steps, timers, records."""
