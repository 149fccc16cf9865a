"""Verified links: a run in its notation, and fingerprints of its events.

    run=central%20-n%203&events=36&digest=127c5fdcdbd701e7&marks=...

The session that opens a link executes the run again and compares.  `marks` are twelve bits of the
digest so far after every event, so that a difference is found where it begins: two characters for
an event.  Fewer cannot tell the first difference, whatever they mean.  In a run of more than
20,000 events a mark stands for a few events.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from habemus.core.events import Event, lines
from habemus.lab.branches import LabError
from habemus.runs.execution import KEEP_LIMIT

MOST_MARKS = 20_000
MARK = 2
"""Characters of a mark."""
DIGEST = 16
"""Hexadecimal digits of the digest in a link."""
LONGEST_LINK = 100_000


class VerifiedLink(NamedTuple):
    """The content of a link."""

    kind: str  # run, or check: a counterexample
    command: str
    steps: str  # of a counterexample that was continued by hand; else empty
    events: int
    digest: str
    marks: str


def link_to(kind: str, command: str, events: Sequence[Event], steps: str = "") -> str:
    """Return the link to a run with these events."""
    digest, marks = _fingerprints(events, _distance(len(events)))
    fields = {
        kind: command.removeprefix(f"habemus {kind} "),
        **({"steps": steps} if steps else {}),
        "events": str(len(events)),
        "digest": digest[:DIGEST],
        "marks": marks,
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
    marks = fields.get("marks", "")
    if len(marks) != int(count) // _distance(int(count)) * MARK:
        raise LabError("the link is damaged: its marks are not complete; copy all of it")
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
    distance = _distance(link.events)
    digest, marks = _fingerprints(events[: link.events], distance)
    if digest[:DIGEST] == link.digest and marks == link.marks and len(events) >= link.events:
        return None
    for position in range(0, len(link.marks), MARK):
        if marks[position : position + MARK] != link.marks[position : position + MARK]:
            first = position // MARK * distance
            return first, _sentence(first, distance, events, link.events)
    first = link.events - link.events % distance
    if first < link.events:
        return first, _sentence(first, link.events - first, events, link.events)
    return max(0, link.events - 1), "the digest of the link is not that of the run"


def _sentence(first: int, count: int, events: Sequence[Event], expected: int) -> str:
    """Say what differs; events are counted from 1, as on the page."""
    if first >= len(events):
        return f"the run ends after {len(events)} events, that of the link has {expected}"
    if count > 1:
        return f"the first difference is among events #{first + 1} to #{first + count} of the run"
    event = events[first]
    what = " ".join(filter(None, (event.kind, event.described())))
    here = f"{what} at process {event.process} after {event.time / 1000:g} ms"
    return f"event #{first + 1} is not that of the link: here it is {here}"


def _distance(count: int) -> int:
    """Return how many events there are between two marks."""
    return max(1, -(-count // MOST_MARKS))


def _fingerprints(events: Sequence[Event], distance: int) -> tuple[str, str]:
    """Return the digest of the events, and its marks."""
    found = hashlib.sha256()
    marks = []
    texts = lines(iter(events))
    for begin in range(0, len(events), distance):
        chunk = list(islice(texts, min(distance, len(events) - begin)))
        found.update(("\n".join(chunk) + "\n").encode("ascii"))
        if len(chunk) == distance:
            marks.append(base64.urlsafe_b64encode(found.digest()[:3]).decode()[:MARK])
    return found.hexdigest(), "".join(marks)
