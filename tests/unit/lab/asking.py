"""Ask a session, and read the events of its replies as lines."""

from __future__ import annotations

from typing import Any

from habemus.core.events import KINDS
from habemus.lab.session import Session


def ask(session: Session, **message: Any) -> list[dict[str, Any]]:
    """Return the replies to a request; those with events have `lines` and `texts`."""
    replies = list(session.answer({"id": 5, **message}))
    assert [reply["id"] for reply in replies] == [5] * len(replies)
    assert [reply.get("done", False) for reply in replies] == [False] * (len(replies) - 1) + [True]
    for reply in replies:
        if reply["is"] == "events":
            columns = reply["columns"]
            reply["lines"] = [_line(columns, index) for index in range(len(columns["t"]))]
            reply["texts"] = [columns["whats"][what][1] for what in columns["what"]]
    return replies


def _line(columns: dict[str, Any], index: int) -> dict[str, Any]:
    """Return an event as the line of a trace file, without its vector clock."""
    name, _, fields, part = columns["whats"][columns["what"][index]]
    found = {"t": columns["t"][index], "p": columns["p"][index], "e": KINDS[columns["e"][index]]}
    rest = {"peer": columns["peer"][index], "id": columns["id"][index]}
    found |= {field: value for field, value in rest.items() if value is not None}
    return found | {field: v for field, v in (("name", name), ("v", fields), ("part", part)) if v}
