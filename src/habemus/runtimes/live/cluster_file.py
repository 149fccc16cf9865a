"""Reading `cluster.toml`: what nodes and clients both need of it.

Clients read the file to find the nodes.  So this module imports neither asyncio nor ssl.  The rest
of the file concerns nodes only (`habemus.runtimes.live.config`).
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

T = TypeVar("T")

MOST_NODES = 100
_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    dict: "a table",
}


class BadConfig(ValueError):
    """An invalid configuration; the message is one line, and names the line of the file."""


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClusterFile:
    """A `cluster.toml`; its values are checked when they are read from here.

    at: the keys that lead to a value, such as ("tls", "ca").
    """

    def __init__(self, path: str) -> None:
        """Read the file; raise `OSError` if that fails, `BadConfig` if it is not TOML."""
        import tomllib  # most clients read no cluster.toml

        self.path = path
        with open(path, "rb") as file:
            content = file.read()
        try:
            self._text = content.decode()
            self.found: dict[str, Any] = tomllib.loads(self._text)
        except UnicodeDecodeError:
            raise BadConfig(f"{path} is not UTF-8 text") from None
        except tomllib.TOMLDecodeError as reason:
            raise BadConfig(f"{path}: {reason}") from None

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)

    def path_of(self, named: str) -> str:
        """Return a path that the file names: absolute, or relative to its folder."""
        return os.path.join(self.folder, named)

    def nodes(self) -> dict[int, Address]:
        """Return the addresses of the nodes by number; after removals there may be gaps."""
        nodes = self.table(("nodes",))
        if not nodes:
            self.refuse(
                ("nodes",),
                'no nodes; write [nodes], and below it 1 = "127.0.0.1:7401" and so on',
            )
        for key in nodes:
            if not re.fullmatch(r"[1-9]\d*", key):
                self.refuse(
                    ("nodes", key),
                    f"{key!r} is not the number of a node; number nodes 1, 2, 3, ...",
                )
        for key in nodes:
            if int(key) > MOST_NODES:
                self.refuse(("nodes", key), f"node {key}; the largest number is {MOST_NODES}")
        numbers = sorted(map(int, nodes))
        found = {each: self.address(("nodes", str(each)), nodes[str(each)]) for each in numbers}
        for number, address in found.items():
            if list(found.values()).count(address) > 1:
                self.refuse(
                    ("nodes", str(number)),
                    f"two nodes have the address {address}; give each its own",
                )
        return found

    def written_version(self) -> int | None:
        """Return the version of the configuration whose nodes `habemus member` has written here.
        None if it has written none, or they were edited since.
        """
        found = re.search(
            r"^\s*\[nodes\]\s*# configuration (\d+) ([0-9a-f]{8})\b", self._text, re.M
        )
        if found is None:
            return None
        addresses = {number: str(address) for number, address in self.nodes().items()}
        return int(found[1]) if found[2] == nodes_digest(int(found[1]), addresses) else None

    def socket(self) -> str:
        """Return the path of the local sockets, with {id} for the node; empty if there are none."""
        found = self.text(("socket",))
        if found and "{id}" not in found:
            self.refuse(
                ("socket",),
                f"socket {found!r} is the same for all nodes; write {{id}} for the number of the"
                ' node, as in "run/node-{id}.sock"',
            )
        return found

    # Values.

    def text(self, at: tuple[str, ...]) -> str:
        """Return a text; empty if there is none."""
        found = self.typed(at, self.table(at[:-1]).get(at[-1], ""), str)
        if "\0" in found:
            self.refuse(at, f"{'.'.join(at)} contains a zero byte; remove it")
        return found

    def table(self, at: tuple[str, ...]) -> dict[str, Any]:
        """Return a table; an empty one if there is none."""
        found = self.found
        for depth, key in enumerate(at, start=1):
            found = self.typed(at[:depth], found.get(key, {}), dict)
        return found

    def address(self, at: tuple[str, ...], found: object) -> Address:
        """Return the address that a value is."""
        parsed = parsed_address(found) if isinstance(found, str) else None
        if parsed is None:
            self.refuse(
                at,
                f'{found!r} is not an address; write "127.0.0.1:7401", "host.example:7400" or'
                ' "[::1]:7401"',
            )
        return parsed

    def typed(self, at: tuple[str, ...], found: object, kind: type[T]) -> T:
        """Return a value if it is of this type."""
        if type(found) is not kind:
            self.refuse(at, f"{'.'.join(at)} must be {_KINDS[kind]}, not {shown(found)}")
        return found

    def refuse(self, at: tuple[str, ...], reason: str) -> NoReturn:
        """Raise `BadConfig` with the line of the file."""
        line = _line_of(self._text, at)
        raise BadConfig(f"{self.path}{f', line {line}' if line else ''}: {reason}")


def parsed_address(text: str) -> Address | None:
    """Return the address that a text is; None if it is none."""
    matched = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\s:\[\]/]+)):(\d{1,5})", text)
    if matched is None or int(matched[3]) > 65_535:
        return None
    return Address(matched[1] or matched[2], int(matched[3]))


def nodes_digest(version: int, nodes: Mapping[int, str]) -> str:
    """Return the mark by which nodes that were edited by hand are noticed; it is no secret."""
    content = ",".join([str(version), *(f"{each}={nodes[each]}" for each in sorted(nodes))])
    return f"{zlib.crc32(content.encode()):08x}"


def secret_in(path: str) -> bytes:
    """Return the secret in a file, without white space around it; `BadConfig` if it is empty."""
    try:
        with open(path, "rb") as file:
            secret = file.read().strip()
    except OSError as reason:
        raise BadConfig(f"secret file {path}: {reason.strerror}") from None
    if not secret:
        raise BadConfig(f"secret file {path} is empty")
    return secret


def shown(found: object) -> str:
    """Return a value as messages show it."""
    text = repr(found)
    return text if len(text) <= 40 else text[:37] + "..."


def _line_of(text: str, at: tuple[str, ...]) -> int | None:
    """Return the line of a key, or that of the table around it."""
    table: tuple[str, ...] = ()
    best, depth = None, 0
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        key = re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line)
        if header:
            table = _names(header[1])
        place = table if header else (*table, *_names(key[1])) if key else ()
        shared = min(len(place), len(at))
        if place[:shared] == at[:shared] and shared > depth:
            best, depth = number, shared
    return best


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))
