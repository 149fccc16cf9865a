"""A session for tests of the worker and the server: it misbehaves on request."""

import os
from collections.abc import Iterator, Mapping
from typing import Any


class StubSession:
    def answer(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        number = message.get("id")
        match message["do"]:
            case "echo":
                yield {"id": number, "is": "echo", "text": message.get("text", "")}
            case "loop":
                while True:
                    pass
            case "memory":
                kept: list[bytes] = []
                while True:
                    kept.append(bytes(10_000_000))
            case "print":
                print('={"is": "forged"}', flush=True)  # noqa: T201
            case "exit":
                os._exit(3)
            case "quit":
                raise SystemExit(4)
            case "read":
                input()
            case "long":
                yield {"id": number, "is": "long", "text": "x" * 3_000_000}
            case other:
                raise ValueError(f"no {other}\nhere")
        yield {"id": number, "is": "pid", "pid": os.getpid(), "done": True}
