"""The log of a node: one line for each record, with time, level, node and term.

As text:

    2026-11-17T06:01:02.123Z warning node=2 term=7 refused a client at 10.0.0.9:50312: ...

or as JSON, one object per line, with the keys time, level, node, term and message, and others where
a record has them: `event` names its kind, and `client`, `lock` and the like say who and what.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


class LogFormatter(logging.Formatter):
    """Formats records as text or JSON.

    term: returns the highest term that the node knows, 0 if there is none.
    """

    def __init__(self, form: str, node: int, term: Callable[[], int]) -> None:
        super().__init__()
        self._is_json = form == "json"
        self._node = node
        self.term = term

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "node": self._node,
            "term": self.term(),
            "message": record.getMessage(),
            **getattr(record, "details", {}),
        }
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._is_json:
            if trace:
                found["exception"] = trace
            return json.dumps(found, ensure_ascii=False, default=str)
        message = found["message"]
        if not message.isprintable():  # no client can forge a line
            message = message.encode("unicode_escape").decode("ascii")
        line = f"{found['time']} {found['level']} node={self._node} term={found['term']} {message}"
        return f"{line}\n{trace}" if trace else line


def details(event: str, **who: object) -> dict[str, dict[str, object]]:
    """Return the `extra` of a log record: the kind of event, and who and what it concerns."""
    return {"details": {"event": event, **who}}


def configure(form: str, node: int, level: int) -> LogFormatter:
    """Send the records of habemus to stderr in this format.  Return the formatter."""
    formatter = LogFormatter(form, node, lambda: 0)
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("habemus").setLevel(level)
    return formatter
