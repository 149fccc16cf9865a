"""The glossary: properties, fault models and words, for `habemus explain` and the documentation."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from habemus.analysis.cards.table import MODELS
from habemus.catalog.entries import problems
from habemus.core.properties import Kind
from habemus.core.words import did_you_mean
from habemus.problems.abstract_election import PROPERTIES as ABSTRACT_ELECTION

PROPERTY, FAULT_MODEL, WORD = "property", "fault model", "word"

_KINDS = {
    Kind.ALWAYS: "Safety: one event can refute it.",
    Kind.EVENTUALLY: "Liveness: only the end of a run that was not cut off, or a loop, refutes it.",
    Kind.SOMETIMES: "The event that it is about happens at all.",
}

_WORDS = {
    "bytes per entry": "The size of the messages of one entry, as JSON.",
    "card": "The docstring of an algorithm: source, assumptions, cost, and what it ensures.",
    "client delay": (
        "The time from a request to the entry when no other process competes, in message times."
    ),
    "component": "A process below another one, which it uses: a detector, an election, links.",
    "coordinator": "The process that decides for the others: it keeps the queue and grants.",
    "counterexample": "The shortest run to a violation that a check has found.",
    "critical section": "The part of a program in which at most one process may be.",
    "deadlock": "Nothing can happen any more although processes wait.",
    "digest": "A fingerprint of all events of a run: the same setup gives the same digest.",
    "durable": "Of a variable: it survives a crash.  It is stored before the step sends anything.",
    "failure detector": "A component that suspects crashed processes; it may be wrong.",
    "fair": "Of an endless run: whatever can always happen does happen in the end.",
    "fairness": (
        "Jain's index of the entries of the participants: 1 if all have the same number, 1/n if"
        " one has all."
    ),
    "fencing token": (
        "A number that grows with every grant.  The resource refuses a smaller one than it has"
        " seen.  2.3 is the third grant of term 2, the number 2 * 2**32 + 3."
    ),
    "FIFO": "Of a link: messages arrive in the order in which they were sent.",
    "GST": "Global stabilisation time: before it delays are wild, after it they are bounded.",
    "happened before": (
        "Lamport's order: earlier at the same process, or the sending of a message before its"
        " receipt, or both in turn."
    ),
    "lease": "The time for which a client holds a lock without renewing it.",
    "liveness": "Something good happens in the end.",
    "message time": "The mean delay of a message, 1 ms by default; the unit of all delays.",
    "messages per entry": "All messages of a run but upkeep, divided by the entries.",
    "overtaking": "Entries of others between a request and its own entry (ME4 bounds them).",
    "partition": "Links between groups of processes lose all messages.",
    "quorum": "A set of processes any two of which intersect, such as a majority.",
    "safety": "Nothing bad happens.",
    "split brain": "Two parts of a network each have a leader or a holder.",
    "starvation": "One process waits for ever while others enter again and again.",
    "sync delay": "The time from one exit to the next entry of a process that waited.",
    "term": "A number that grows with every election; at most one leader has it.",
    "throughput": "Entries per message time.",
    "turnaround": "The time from the first call of an election to the last process that knows.",
    "undecided": "The run was cut off, or what the property is about never happened.",
    "upkeep messages": "Messages that need no request: heartbeats, a token on its way.",
    "vector clock": "One counter for each process; of two events it tells which happened before.",
    "voting set": "The processes that must agree to an entry; any two sets share a member.",
}


class GlossaryTerm(NamedTuple):
    name: str
    kind: str  # PROPERTY, FAULT_MODEL or WORD
    text: str


@cache
def glossary() -> dict[str, GlossaryTerm]:
    """Return all terms by name: first properties, then fault models, then words."""
    properties = [(each, problem.title) for problem in problems() for each in problem.properties]
    properties += [(each, "abstract election") for each in ABSTRACT_ELECTION]
    found = [
        GlossaryTerm(each.name, PROPERTY, f"{_sentence(each.says)}  {_KINDS[each.kind]}  ({title})")
        for each, title in properties
    ]
    found += [GlossaryTerm(model.name, FAULT_MODEL, _sentence(model.title)) for model in MODELS]
    found += [
        GlossaryTerm(name, WORD, text)
        for name, text in sorted(_WORDS.items(), key=lambda item: item[0].lower())
    ]
    return {term.name: term for term in found}


class UnknownTerm(LookupError):
    """There is no such term; the message suggests the nearest."""


def explain(name: str) -> list[GlossaryTerm]:
    """Return the terms of a name; ME2 names both of its halves."""
    wanted = name.lower()
    known = glossary()
    found = [
        term
        for each, term in known.items()
        if each.lower() == wanted or each.lower().partition("-")[0] == wanted
    ]
    if not found:
        hint = did_you_mean(name, known, "habemus explain lists all")
        raise UnknownTerm(f"the glossary has no {name!r}; {hint}")
    return found


def page() -> str:
    """Return the glossary as a page of the documentation."""
    lines = [
        "# Glossary",
        "",
        "`habemus explain ME1` prints one of these. Generated by `make docs`.",
    ]
    for kind, title in ((PROPERTY, "Properties"), (FAULT_MODEL, "Fault models"), (WORD, "Words")):
        lines += ["", f"## {title}", "", "| | |", "|---|---|"]
        lines += [
            f"| **{term.name}** | {term.text} |"
            for term in glossary().values()
            if term.kind == kind
        ]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
