"""The client's side of the lines in `habemus.runtimes.live.clients.protocol`, without input or
output.

Both clients read lines and greet nodes by this module.  A node is not trusted to speak correctly:
a line that no node would send raises `ProtocolError`, which is a `HabemusError`.
"""

from __future__ import annotations

import json
import os
from hmac import compare_digest
from types import NoneType
from typing import Any

from habemus.client.address import NodeAddress
from habemus.client.credentials import Credentials
from habemus.client.errors import ProtocolError, RefusedByNode
from habemus.runtimes.live.clients.protocol import VERSION, proof

LINE_LIMIT = 64 << 20
"""Bytes of a line of the node; a status of many locks is long."""

_INT, _TEXT, _TABLE = (int,), (str,), (dict,)
_SHAPES: dict[str, tuple[tuple[type, ...], ...]] = {
    "challenge": (_TEXT, _INT, _TEXT, _TEXT),
    "welcome": (_TABLE,),
    "granted": (_INT, (int, NoneType), (int, NoneType), _INT, _TEXT),
    "wanted": (_INT,),
    "lost": (_INT, _TEXT),
    "alive": (_INT, (list,)),
    "news": (_INT, _TABLE),
    "status": (_INT, _TABLE),
    "done": (_INT, _TABLE),
    "refused": ((int, NoneType), _TEXT, _TEXT),
}
"""Types of what follows the word of a line."""
_WELCOME = {"cluster": str, "node": int, "session": str, "nodes": dict, "services": dict}

encode = json.JSONEncoder(separators=(",", ":")).encode
_raw_decode = json.JSONDecoder().raw_decode


def decode(line: bytes, place: object) -> list[Any]:
    """Return the line of the node at this place, which is as `lines` describes it."""
    try:
        read = _raw_decode(line.decode())[0]  # there are no spaces around it
    except (ValueError, RecursionError):
        read = None
    if not _is_well_formed(read):
        raise ProtocolError(f"{place} sends what no node would send: {line[:60]!r}")
    found: list[Any] = read
    return found


def _is_well_formed(line: object) -> bool:
    if type(line) is not list or len(line) < 2 or type(line[0]) is not str:
        return False
    word, *rest = line
    shape = _SHAPES.get(word)
    if shape is None:
        return True  # of no interest to this client
    if len(rest) != len(shape) or any(
        type(each) not in kinds for each, kinds in zip(rest, shape, strict=True)
    ):
        return False
    if word == "alive":
        return all(type(each) is list and len(each) == 2 and _is_time(*each) for each in rest[1])
    return _is_welcome(rest[0]) if word == "welcome" else True


def _is_time(id: object, left_ms: object) -> bool:
    return type(id) is int and type(left_ms) in (int, NoneType)


def _is_welcome(said: dict[str, Any]) -> bool:
    if any(type(said.get(name)) is not kind for name, kind in _WELCOME.items()):
        return False
    offers = said["services"].values()
    return all(
        type(each) is dict and type(each.get("lease_ms")) in (int, NoneType) for each in offers
    )


class Greeting:
    """The client's side of a handshake: `hello` first, then `answer` to what the node says."""

    def __init__(
        self, place: NodeAddress, credentials: Credentials, label: str, session: str | None
    ) -> None:
        self._place = place
        self._secret = credentials.secret
        self._nonce = None if self._secret is None else os.urandom(32).hex()
        # Who can connect to the local socket of a node, and who can listen there, is up to the
        # system.
        self._is_proved = self._secret is None or bool(place.path)
        self.hello = ["hello", VERSION, label, session, self._nonce]
        self.welcome: dict[str, Any] | None = None

    def answer(self, line: list[Any]) -> list[Any] | None:
        """Return what to say next; None once the node has said welcome."""
        nonce, self._nonce = self._nonce, None  # good for one challenge
        if line[0] == "challenge" and self._secret is not None and nonce is not None:
            return self._proof(self._secret, nonce, *line[1:])
        if line[0] == "refused":
            raise RefusedByNode(f"{self._place}: {line[3]}")
        if line[0] != "welcome":
            raise RefusedByNode(f"{self._place}: an unexpected answer, {str(line[0])[:20]!r}")
        if not self._is_proved:
            raise RefusedByNode(
                f"{self._place} does not prove that it knows the cluster's secret: "
                "it is no node of this cluster, or it runs without secret_file"
            )
        self.welcome = line[1]
        return None

    def _proof(
        self, secret: bytes, nonce: str, cluster: str, node: int, theirs: str, shown: str
    ) -> list[Any]:
        nonces = (nonce, theirs)
        if not compare_digest(
            shown.encode(), proof(secret, "node", cluster, node, nonces).encode()
        ):
            raise RefusedByNode(f"{self._place} does not know the cluster's secret")
        self._is_proved = True
        return ["proof", proof(secret, "client", cluster, node, nonces)]
