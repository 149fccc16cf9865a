"""Lines of the log: time, level, node, term; nothing that a client sends can forge one."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from habemus.runtimes.live.monitoring.logs import LogFormatter, details


def record(text: str, *arguments: object, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("habemus.live", logging.WARNING, "", 0, text, arguments, None)
    made.created = 1_700_000_000.25
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_text() -> None:
    formatter = LogFormatter("text", 2, lambda: 7)
    assert formatter.format(record("refused %s", "x")) == (
        "2023-11-14T22:13:20.250Z warning node=2 term=7 refused x"
    )


def test_json_has_who_and_what() -> None:
    formatter = LogFormatter("json", 2, lambda: 7)
    line = formatter.format(record("forced %s", "é\n", **details("forced", client="é\n")))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "node": 2,
        "term": 7,
        "message": "forced é\n",
        "event": "forced",
        "client": "é\n",
    }


def test_no_line_can_be_forged() -> None:
    formatter = LogFormatter("text", 2, lambda: 7)
    line = formatter.format(record("label %s", "x\n2023-11-14T22:13:20.250Z info node=1\x1b[2J"))
    assert line.isprintable()


def test_a_traceback_is_kept() -> None:
    try:
        json.loads("here")
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    assert "JSONDecodeError: Expecting value" in LogFormatter("text", 1, int).format(failed)
    assert (
        "JSONDecodeError: Expecting value"
        in json.loads(LogFormatter("json", 1, int).format(failed))["exception"]
    )
