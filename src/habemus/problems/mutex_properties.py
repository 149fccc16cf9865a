"""The properties of mutual exclusion."""

from __future__ import annotations

from habemus.core.properties import Kind, Property

ME1 = Property("ME1", Kind.ALWAYS, "at most one process is in the critical section at any moment")
ME2_DEADLOCK = Property(
    "ME2-deadlock",
    Kind.EVENTUALLY,
    "one of the waiting processes enters, if no process stays inside for ever",
)
ME2_STARVATION = Property(
    "ME2-starvation",
    Kind.EVENTUALLY,
    "every waiting process enters, if no process stays inside for ever",
)
ME3 = Property("ME3", Kind.ALWAYS, "if one request happened before another, it is served first")
ME4 = Property(
    "ME4", Kind.ALWAYS, "no more than so many others enter between a request and its entry"
)

PROPERTIES = (ME1, ME2_DEADLOCK, ME2_STARVATION, ME3, ME4)
