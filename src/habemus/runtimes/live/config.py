"""`cluster.toml`: the nodes of a cluster, its services and its security.

    cluster = "office"
    data = "data"                       # stable memory, in a folder for each node;
                                        # or memory = "none": a restarted node has lost its state
    secret_file = "secret"              # at least 16 bytes; the same on all nodes
    socket = "run/node-{id}.sock"       # for clients of the same user and machine, without secret
    record = "records"                  # folder of the records of the nodes; default: no records

    [nodes]                             # numbered from 1
    1 = "10.0.0.1:7400"
    2 = "10.0.0.2:7400"
    3 = "10.0.0.3:7400"

    [tls]                               # {id} stands for the number of the node
    ca = "ca.pem"
    certificate = "node-{id}.pem"       # for the name node-{id}.office
    key = "node-{id}.key"

    [services.locks]                    # the default, if there is no [services]
    algorithm = "elected-coordinator-leased"
    options = { lease = "2s" }
    over = "perfect"                    # links below the algorithm; default: the connections
    shared = false                      # an election for each lock; default: one for all

    [semaphores]                        # their sizes; clients cannot use any others
    printers = 3

Paths are relative to the file.  The environment (HABEMUS_DATA, HABEMUS_SECRET_FILE, HABEMUS_RECORD,
HABEMUS_BIND and HABEMUS_INSECURE) overrides the file, and the command line overrides both.

An address that other machines can reach needs certificates and a secret, or `insecure = true`.
Unknown keys are refused, because a misspelt setting would otherwise be ignored.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from habemus.runtimes.live.clients.protocol import NAMES_LIMIT
from habemus.runtimes.live.peers.handshake import SECRET_AT_LEAST
from habemus.runtimes.live.peers.tls import TlsContexts, contexts
from habemus.runtimes.live.settings import Settings
from habemus.runtimes.live.sockets import Address, is_loopback

log = logging.getLogger("habemus.live")

OVERRIDES = ("data", "secret_file", "record", "bind", "insecure")
"""Settings that the environment and the command line override."""
NO_MEMORY = "none"
MEMORY = (
    f'write data = "FOLDER" for the stable memory of the nodes, or memory = "{NO_MEMORY}" to run'
    " without"
)
MOST_NODES = 100
SEMAPHORE_NAME_LIMIT = 150
"""Characters; the names of its places are longer."""
CLUSTER = "habemus"
"""Default name of a cluster."""
CLUSTER_NAME = "use 1 to 40 lower-case letters, digits and inner hyphens for the name of a cluster"


class BadConfig(ValueError):
    """An invalid configuration; the message is one line, and names the line of the file."""


class ServiceConfig(NamedTuple):
    """The configuration of a service, not yet resolved by the catalog."""

    algorithm: str
    options: tuple[str, ...] = ()  # NAME=VALUE, as given
    over: str = ""
    shared: bool | None = None  # one election for all instances; None: if possible


DEFAULT_SERVICES = {
    "locks": ServiceConfig("elected-coordinator-leased"),
}


class TlsFiles(NamedTuple):
    ca: Path
    certificate: str
    key: str


@dataclass(frozen=True)
class Config:
    cluster: str
    nodes: Mapping[int, Address]
    services: Mapping[str, ServiceConfig]
    file: Path  # other paths are relative to its folder
    data: Path | None = None  # also None where only the flags of each node name it
    has_memory: bool = True  # False: memory = "none"
    secret_file: Path | None = None
    record: Path | None = None
    bind: Address | None = None
    insecure: bool = False
    tls: TlsFiles | None = None
    socket: str = ""  # with {id} for the node
    semaphores: Mapping[str, int] = field(default_factory=dict)  # their sizes

    @property
    def folder(self) -> Path:
        return self.file.parent

    def settings(self, node: int) -> Settings:
        """Return the settings of one node; read its secret and certificates."""
        if node not in self.nodes:
            raise BadConfig(
                f"no node {node}; {self.file} has nodes {', '.join(map(str, self.nodes))}"
            )
        self.check_memory()
        bind = self.bind or self.nodes[node]
        secret = None if self.secret_file is None else secret_in(self.secret_file)
        self.check_exposure([bind, *self.nodes.values()])
        return Settings(
            cluster=self.cluster,
            node=node,
            peers={peer: address for peer, address in self.nodes.items() if peer != node},
            bind=bind,
            socket=self.socket_of(node),
            folder=None if self.data is None else _folder_in(self.data, node),
            secret=secret,
            tls=None if self.tls is None else self._contexts(self.tls, node),
            record=self.record,
            semaphores=self.semaphores,
            insecure=self.insecure,
        )

    def socket_of(self, node: int) -> Path | None:
        return self.folder / self.socket.replace("{id}", str(node)) if self.socket else None

    def check_memory(self) -> None:
        if self.has_memory and self.data is None:
            raise BadConfig(f"{self.file} names no folder for stable memory: {MEMORY}")

    def check_exposure(self, addresses: list[Address]) -> None:
        open_to_others = [address for address in addresses if not is_loopback(address.host)]
        if open_to_others and not self.insecure and (self.tls is None or self.secret_file is None):
            lacking = " and ".join(
                word
                for word, has in (("[tls]", self.tls), ("a secret_file", self.secret_file))
                if has is None
            )
            raise BadConfig(
                f"{open_to_others[0]} can be reached by other machines, so the cluster needs"
                f" {lacking}; or write insecure = true (--insecure) on a network that you trust"
            )

    def _contexts(self, tls: TlsFiles, node: int) -> TlsContexts:
        certificate, key = self.certificate_files(tls, node)
        warn_if_readable(key)
        return contexts(tls.ca, certificate, key)

    def certificate_files(self, tls: TlsFiles, node: int) -> tuple[Path, Path]:
        """Return the paths of the certificate of a node and of its key."""
        certificate, key = (
            self.folder / name.replace("{id}", str(node)) for name in (tls.certificate, tls.key)
        )
        return certificate, key


def is_cluster_name(name: str) -> bool:
    return re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name) is not None


def warn_if_readable(path: Path) -> None:
    """Log a warning if other users of the machine can read a secret or key."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0
    if mode & 0o077:
        log.warning("%s can be read by other users (mode %o): run chmod 600 %s", path, mode, path)


def secret_in(path: Path) -> bytes:
    try:
        secret = path.read_bytes().strip()
    except OSError as reason:
        raise BadConfig(f"secret file {path}: {reason.strerror}") from None
    warn_if_readable(path)
    if len(secret) < SECRET_AT_LEAST:
        raise BadConfig(
            f"secret file {path} has {len(secret)} bytes; write at least {SECRET_AT_LEAST}"
        )
    return secret


def _folder_in(data: Path, node: int) -> Path:
    if not data.is_dir():
        raise BadConfig(f"data folder {data} does not exist; create it, or mount its volume")
    folder = data / f"node-{node}"
    folder.mkdir(exist_ok=True)
    return folder


# Reading.


def load(path: Path, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """Read the file; the environment and the flags override it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as reason:
        raise BadConfig(f"{path}: {reason.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"{path} is not UTF-8 text") from None
    return _Reader(path, text).config(environment, flags)


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        try:
            self._found: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as reason:
            raise BadConfig(f"{path}: {reason}") from None

    def config(self, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
        found = self._found
        tables = ("nodes", "services", "semaphores", "tls")
        self._known((), found, ("cluster", *tables, "socket", "memory", *OVERRIDES))
        kinds = {"insecure": bool}
        for name in ("cluster", "socket", "memory", *OVERRIDES):
            if name in found:
                self._text_or((name,), found[name], kinds.get(name, str))
        chosen: dict[str, Any] = {name: found.get(name) for name in OVERRIDES}
        for name in OVERRIDES:
            value = environment.get(f"HABEMUS_{name.upper()}")
            if value:
                chosen[name] = self._flag(name, value) if name == "insecure" else value
            if flags.get(name) is not None:
                chosen[name] = flags[name]
        cluster = found.get("cluster", CLUSTER)
        if not is_cluster_name(cluster):
            self._refuse(("cluster",), f"{_shown(cluster)} is not valid; {CLUSTER_NAME}")
        if found.get("memory", NO_MEMORY) != NO_MEMORY:
            self._refuse(("memory",), f"memory = {_shown(found['memory'])} is not valid; {MEMORY}")
        if "memory" in found and "data" in found:
            self._refuse(
                ("memory",),
                f'memory = "{NO_MEMORY}" and a data folder exclude each other; remove one of the'
                " two lines",
            )
        folder = self._path.parent
        paths = {
            name: folder / chosen[name] if chosen[name] else None
            for name in ("data", "secret_file", "record")
        }
        bind = None if chosen["bind"] is None else self._address(("bind",), chosen["bind"])
        config = Config(
            cluster,
            self._nodes(),
            self._services(),
            self._path,
            **paths,
            has_memory="memory" not in found or paths["data"] is not None,
            bind=bind,
            insecure=bool(chosen["insecure"]),
            tls=self._tls(),
            socket=self._socket(),
            semaphores=self._semaphores(),
        )
        config.check_exposure([*config.nodes.values(), *([bind] if bind else [])])
        return config

    def _nodes(self) -> dict[int, Address]:
        nodes = self._typed(("nodes",), self._found.get("nodes", {}), dict)
        if not nodes:
            self._refuse(
                ("nodes",),
                'no nodes; write [nodes], and below it 1 = "127.0.0.1:7401" and so on',
            )
        for key in nodes:
            if not re.fullmatch(r"[1-9]\d*", key):
                self._refuse(
                    ("nodes", key),
                    f"{key!r} is not the number of a node; number nodes 1, 2, 3, ...",
                )
        wanted = [str(number) for number in range(1, len(nodes) + 1)]
        for key in nodes:
            if key not in wanted:
                self._refuse(
                    ("nodes", key),
                    f"node {key} among {len(nodes)} nodes; number them from 1 to {len(nodes)}",
                )
        if len(nodes) > MOST_NODES:
            self._refuse(("nodes",), f"{len(nodes)} nodes; the limit is {MOST_NODES}")
        found = {int(key): self._address(("nodes", key), nodes[key]) for key in wanted}
        for number, address in found.items():
            if list(found.values()).count(address) > 1:
                self._refuse(
                    ("nodes", str(number)),
                    f"two nodes have the address {address}; give each its own",
                )
        return found

    def _address(self, at: tuple[str, ...], found: object) -> Address:
        matched = (
            re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\s:\[\]/]+)):(\d{1,5})", found)
            if isinstance(found, str)
            else None
        )
        if matched is None or int(matched[3]) > 65_535:
            self._refuse(
                at,
                f'{found!r} is not an address; write "127.0.0.1:7401", "host.example:7400" or'
                ' "[::1]:7401"',
            )
        return Address(matched[1] or matched[2], int(matched[3]))

    def _services(self) -> Mapping[str, ServiceConfig]:
        found_services = self._typed(("services",), self._found.get("services", {}), dict)
        services: dict[str, ServiceConfig] = {}
        for name, found in found_services.items():
            at = ("services", name)
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", name):
                self._refuse(
                    at,
                    f"{name!r} is not a name for a service; use 1 to 40 letters, digits, hyphens"
                    " and underscores",
                )
            self._typed(at, found, dict)
            self._known(at, found, ("algorithm", "options", "over", "shared"))
            if "algorithm" not in found:
                self._refuse(
                    at,
                    f'[services.{name}] names no algorithm; write algorithm = "ricart-agrawala",'
                    " for example",
                )
            algorithm = self._typed((*at, "algorithm"), found["algorithm"], str)
            options = self._typed((*at, "options"), found.get("options", {}), dict)
            over = self._typed((*at, "over"), found.get("over", ""), str)
            shared = (
                None
                if "shared" not in found
                else self._typed((*at, "shared"), found["shared"], bool)
            )
            given = (
                f"{key}={self._option((*at, 'options', key), value)}"
                for key, value in options.items()
            )
            services[name] = ServiceConfig(algorithm, tuple(given), over, shared)
        return services or DEFAULT_SERVICES

    def _option(self, at: tuple[str, ...], value: object) -> str:
        try:
            return value if isinstance(value, str) else json.dumps(value)
        except TypeError:
            self._refuse(
                at,
                f"{'.'.join(at)} must be text, a number, true, false, or a list or table of these,"
                f" not {_shown(value)}",
            )

    def _semaphores(self) -> dict[str, int]:
        found = self._typed(("semaphores",), self._found.get("semaphores", {}), dict)
        for name, size in found.items():
            at = ("semaphores", name)
            self._typed(at, size, int)
            if not 1 <= size <= NAMES_LIMIT:
                self._refuse(
                    at, f"semaphore {_shown(name)} has size {size}; use 1 to {NAMES_LIMIT}"
                )
            if not 0 < len(name) <= SEMAPHORE_NAME_LIMIT or not name.isprintable():
                self._refuse(
                    at,
                    f"{_shown(name)} is not a name for a semaphore; use 1 to"
                    f" {SEMAPHORE_NAME_LIMIT} printable characters",
                )
        return dict(found)

    def _socket(self) -> str:
        found: str = self._found.get("socket", "")
        if found and "{id}" not in found:
            self._refuse(
                ("socket",),
                f"socket {found!r} is the same for all nodes; write {{id}} for the number of the"
                ' node, as in "run/node-{id}.sock"',
            )
        return found

    def _tls(self) -> TlsFiles | None:
        if "tls" not in self._found:
            return None
        tls = self._typed(("tls",), self._found["tls"], dict)
        self._known(("tls",), tls, TlsFiles._fields)
        for name in TlsFiles._fields:
            if name not in tls:
                self._refuse(("tls",), f"[tls] has no {name}; write ca, certificate and key")
            self._typed(("tls", name), tls[name], str)
        return TlsFiles(self._path.parent / tls["ca"], tls["certificate"], tls["key"])

    # Errors, with the line of the file.

    def _known(self, at: tuple[str, ...], found: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in found:
            if key not in known:
                near = [
                    each for each in known if each.startswith(key)
                ] or difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"valid keys are {', '.join(known)}"
                self._refuse(
                    (*at, key),
                    f"unknown key {key!r}{f' in [{chr(46).join(at)}]' if at else ''}; {hint}",
                )

    def _typed(self, at: tuple[str, ...], found: Any, kind: type) -> Any:
        if type(found) is not kind:
            self._refuse(at, f"{'.'.join(at)} must be {_KINDS[kind]}, not {_shown(found)}")
        return found

    def _text_or(self, at: tuple[str, ...], found: Any, kind: type) -> None:
        if "\0" in str(self._typed(at, found, kind)):
            self._refuse(at, f"{'.'.join(at)} contains a zero byte; remove it")

    def _flag(self, name: str, value: str) -> bool:
        if value.lower() not in ("1", "true", "yes", "0", "false", "no"):
            raise BadConfig(f"HABEMUS_{name.upper()}={value}: write true or false")
        return value.lower() in ("1", "true", "yes")

    def _refuse(self, at: tuple[str, ...], reason: str) -> NoReturn:
        line = _line_of(self._text, at)
        raise BadConfig(f"{self._path}{f', line {line}' if line else ''}: {reason}")


_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    dict: "a table",
}


def _shown(found: object) -> str:
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
