"""Verified links: a run in its notation, and fingerprints of its events.

    run=central%20-n%203&events=36&digest=127c5fdcdbd701e7&marks=...

The session that opens a link executes the run again and compares.  `marks` are two bytes of the
digest so far after every k-th event, so that a difference is found where it begins.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from habemus.core.events import Event, lines
from habemus.lab.branches import LabError
from habemus.runs.execution import KEEP_LIMIT

MOST_MARKS = 256
MARK = 2
"""Bytes of a mark."""
DIGEST = 16
"""Hexadecimal digits of the digest in a link."""
LONGEST_LINK = 30_000


class VerifiedLink(NamedTuple):
    """The content of a link."""

    kind: str  # run, or check: a counterexample
    command: str
    steps: str  # of a counterexample that was continued by hand; else empty
    events: int
    digest: str
    marks: bytes


def link_to(kind: str, command: str, events: Sequence[Event], steps: str = "") -> str:
    """Return the link to a run with these events."""
    digest, marks = _fingerprints(events, _distance(len(events)))
    fields = {
        kind: command.removeprefix(f"habemus {kind} "),
        **({"steps": steps} if steps else {}),
        "events": str(len(events)),
        "digest": digest[:DIGEST],
        "marks": base64.urlsafe_b64encode(marks).decode().rstrip("="),
    }
    return urlencode(fields, quote_via=quote)


def read_link(text: str) -> VerifiedLink:
    """Parse a link, with or without what stands before its `#`."""
    if len(text) > LONGEST_LINK:
        raise LabError(f"a link has at most {LONGEST_LINK} characters")
    fields = dict(parse_qsl(text.rpartition("#")[2]))
    kinds = [kind for kind in ("run", "check") if kind in fields]
    if len(kinds) != 1:
        raise LabError("the link names no run")
    count = fields.get("events", "")
    if not (count.isascii() and count.isdecimal() and len(count) < 9 and int(count) <= KEEP_LIMIT):
        raise LabError("the link does not tell how many events the run has")
    coded = fields.get("marks", "")
    try:
        marks = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    except (ValueError, binascii.Error):
        raise LabError("the marks of the link are damaged") from None
    return VerifiedLink(
        kinds[0],
        fields[kinds[0]],
        fields.get("steps", ""),
        int(count),
        fields.get("digest", ""),
        marks,
    )


def difference(link: VerifiedLink, events: Sequence[Event]) -> tuple[int, str] | None:
    """Return the first event that is not that of the link and a sentence about it, or None."""
    digest, marks = _fingerprints(events[: link.events], _distance(link.events))
    if digest[:DIGEST] == link.digest and marks == link.marks and len(events) >= link.events:
        return None
    distance = _distance(link.events)
    expected = len(range(distance, link.events + 1, distance)) * MARK
    if len(link.marks) == expected:
        for position in range(0, expected, MARK):
            if marks[position : position + MARK] != link.marks[position : position + MARK]:
                first = position // MARK * distance
                return first, _sentence(first, distance, events)
    if len(events) < link.events:
        last = len(events)
        return last, f"the run has {last} events, the link has {link.events}"
    first = link.events - link.events % distance
    if first < link.events:
        return first, _sentence(first, link.events - first, events)
    return max(0, link.events - 1), "the digest of the link is not that of the run"


def _sentence(first: int, count: int, events: Sequence[Event]) -> str:
    if first >= len(events):
        return f"the run has {len(events)} events and ends before event {first} of the link"
    here = events[first].line()
    if count == 1:
        return f"event {first} is not that of the link: it is {here}"
    return f"the first difference is among events {first} to {first + count - 1} of the run"


def _distance(count: int) -> int:
    """Return how many events there are between two marks."""
    return max(1, -(-count // MOST_MARKS))


def _fingerprints(events: Sequence[Event], distance: int) -> tuple[str, bytes]:
    """Return the digest of the events, and its marks."""
    found = hashlib.sha256()
    marks = bytearray()
    texts = lines(iter(events))
    for begin in range(0, len(events), distance):
        chunk = list(islice(texts, min(distance, len(events) - begin)))
        found.update(("\n".join(chunk) + "\n").encode("ascii"))
        if len(chunk) == distance:
            marks += found.copy().digest()[:MARK]
    return found.hexdigest(), bytes(marks)
