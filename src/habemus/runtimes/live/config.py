"""`cluster.toml`: the nodes of a cluster, its services and its security.

    cluster = "office"
    data = "data"                       # stable memory, in a folder for each node;
                                        # or memory = "none": a restarted node has lost its state
    secret_file = "secret"              # at least 16 bytes; the same on all nodes
    socket = "run/node-{id}.sock"       # for clients of the same user and machine, without secret
    record = "records"                  # folder of the records of the nodes; default: no records
    metrics = "127.0.0.1:940{id}"       # metrics and probes of each node; default: none
    release_on_disconnect = false       # true: the end of a client's connection frees its locks

    [nodes]                             # numbered from 1
    1 = "10.0.0.1:7400"
    2 = "10.0.0.2:7400"
    3 = "10.0.0.3:7400"

    [tls]                               # {id} stands for the number of the node
    ca = "ca.pem"
    certificate = "node-{id}.pem"       # for the name node-{id}.office
    key = "node-{id}.key"

    [services.locks]
    algorithm = "elected-coordinator-leased-members"
    options = { lease = "10s" }
    over = "perfect"                    # links below the algorithm; default: the connections
    shared = false                      # an election for each lock; default: one for all

    [semaphores]                        # their sizes; clients cannot use any others
    printers = 3

    [secrets]                           # of clients, by names for the rules; each file is NAME:...
    ci = "ci.secret"

    [[rules]]                           # who may do what (`rules`); default: all clients may do all
    who = ["alice", "@ci"]
    may = ["lock"]
    names = ["reports/*"]

Paths are relative to the file.  The environment (HABEMUS_DATA, HABEMUS_SECRET_FILE, HABEMUS_RECORD,
HABEMUS_BIND, HABEMUS_METRICS and HABEMUS_INSECURE) overrides the file, and the command line
overrides both.

An address that other machines can reach needs certificates and a secret, or `insecure = true`.
Unknown keys are refused, because a misspelt setting would otherwise be ignored.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from habemus.argument_names import FLAGS
from habemus.core.words import did_you_mean
from habemus.runtimes.live import cluster_file
from habemus.runtimes.live.clients.protocol import NAMES_LIMIT, secret_name
from habemus.runtimes.live.cluster_file import (
    MOST_NODES,
    Address,
    BadConfig,
    ClusterFile,
    parsed_address,
    shown,
)
from habemus.runtimes.live.peers.handshake import SECRET_AT_LEAST
from habemus.runtimes.live.peers.tls import TlsContexts, contexts
from habemus.runtimes.live.rules import (
    ACTIONS,
    BY_SECRET,
    BY_SOCKET,
    AccessRule,
    pattern_error,
    who_error,
)
from habemus.runtimes.live.settings import Settings
from habemus.runtimes.live.sockets import is_loopback

log = logging.getLogger("habemus.live")

OVERRIDES = ("data", "secret_file", "record", "bind", "metrics", "insecure")
"""Settings that the environment and the command line override."""
NO_MEMORY = "none"
MEMORY = (
    f'write data = "FOLDER" for the stable memory of the nodes, or memory = "{NO_MEMORY}" to run'
    " without"
)
SEMAPHORE_NAME_LIMIT = 150
"""Characters; the names of its places are longer."""
CLUSTER = "habemus"
"""Default name of a cluster."""
CLUSTER_NAME = "use 1 to 40 lower-case letters, digits and inner hyphens for the name of a cluster"


class ServiceConfig(NamedTuple):
    """The configuration of a service, not yet resolved by the catalog."""

    algorithm: str
    options: tuple[str, ...] = ()  # NAME=VALUE, as given
    over: str = ""
    shared: bool | None = None  # one election for all instances; None: if possible


DEFAULT_ALGORITHM = "elected-coordinator-leased-members"
"""Algorithm of the locks of a new cluster, if none is named: `habemus up` writes it to the file."""
FIXED_ALGORITHM = "elected-coordinator-leased"
"""The same where members cannot change: where events are recorded, or there is no stable memory.

It is also what a file without [services] means, and always will be.  Nodes of the two algorithms do
not work together, so another meaning would split a cluster whose nodes are upgraded one by one.
"""
IMPLIED_SERVICES = {"locks": ServiceConfig(FIXED_ALGORITHM)}


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
    metrics: str = ""  # an address with {id} for the node; empty: neither metrics nor probes
    insecure: bool = False
    release_on_disconnect: bool = False
    tls: TlsFiles | None = None
    socket: str = ""  # with {id} for the node
    semaphores: Mapping[str, int] = field(default_factory=dict)  # their sizes
    secrets: Mapping[str, Path] = field(default_factory=dict)  # of clients
    rules: tuple[AccessRule, ...] = ()
    written_version: int | None = None  # of the configuration from which `nodes` are, if of any

    @property
    def folder(self) -> Path:
        return self.file.parent

    def settings(self, node: int, *, joins: bool = False) -> Settings:
        """Return the settings of one node; read its secret and certificates.

        joins: the node is new in a cluster that is running.
        """
        if joins and not 1 <= node <= MOST_NODES:
            raise BadConfig(f"node {node}: number nodes from 1 to {MOST_NODES}")
        if node not in self.nodes and not (joins and self.bind):
            raise BadConfig(
                f"no node {node}; {self.file} has nodes {', '.join(map(str, self.nodes))}"
                + ("; give its address with --bind" if joins else "")
            )
        self.check_memory()
        address = self.nodes.get(node) or self.bind
        bind = self.bind or self.nodes[node]
        metrics = self.metrics_of(node)
        secret = None if self.secret_file is None else secret_in(self.secret_file)
        self.check_exposure([bind, *self.nodes.values(), *([metrics] if metrics else [])])
        return Settings(
            cluster=self.cluster,
            node=node,
            peers={} if joins else {peer: at for peer, at in self.nodes.items() if peer != node},
            bind=bind,
            address=address,
            written_version=self.written_version,
            joins=joins,
            socket=self.socket_of(node),
            folder=None if self.data is None else _folder_in(self.data, node),
            secret=secret,
            tls=self.contexts_of(node),
            record=self.record,
            metrics=metrics,
            semaphores=self.semaphores,
            secrets={name: named_secret(name, path) for name, path in self.secrets.items()},
            rules=self.rules,
            release_on_disconnect=self.release_on_disconnect,
            insecure=self.insecure,
        )

    def socket_of(self, node: int) -> Path | None:
        return self.folder / self.socket.replace("{id}", str(node)) if self.socket else None

    def metrics_of(self, node: int) -> Address | None:
        """Return the address of the metrics and probes of a node; None if it has none."""
        return parsed_address(self.metrics.replace("{id}", str(node))) if self.metrics else None

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
                f" {lacking}; or write insecure = true{' (--insecure)' if FLAGS.are_named else ''}"
                " on a network that you trust"
            )

    def contexts_of(self, node: int) -> TlsContexts | None:
        """Read the certificates of a node; None if the cluster has none."""
        return None if self.tls is None else self._contexts(self.tls, node)

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
    """Return the secret of a node, which has to be long enough."""
    secret = cluster_file.secret_in(str(path))
    warn_if_readable(path)
    if len(secret) < SECRET_AT_LEAST:
        raise BadConfig(
            f"secret file {path} has {len(secret)} bytes; write at least {SECRET_AT_LEAST}"
        )
    return secret


def named_secret(name: str, path: Path) -> bytes:
    """Return a secret of clients, which has to begin with its name and a colon."""
    secret = secret_in(path)
    if secret_name(secret) != name:
        raise BadConfig(f"secret file {path} has to begin with its name: write {name}:SECRET")
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
        return _NodeFile(str(path)).config(environment, flags)
    except OSError as reason:
        raise BadConfig(f"{path}: {reason.strerror}") from None


class _NodeFile(ClusterFile):
    """A `cluster.toml`, read as a node reads it: all of it."""

    def config(self, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
        found = self.found
        tables = ("nodes", "services", "semaphores", "tls", "secrets", "rules")
        others = ("cluster", "socket", "memory", "release_on_disconnect")
        self._known((), found, (*others, *tables, *OVERRIDES))
        for name in ("cluster", "memory", *OVERRIDES):
            if name == "insecure":
                self.typed((name,), found.get(name, False), bool)
            else:
                self.text((name,))
        chosen: dict[str, Any] = {name: found.get(name) for name in OVERRIDES}
        for name in OVERRIDES:
            value = environment.get(f"HABEMUS_{name.upper()}")
            if value:
                chosen[name] = self._flag(name, value) if name == "insecure" else value
            if flags.get(name) is not None:
                chosen[name] = flags[name]
        cluster = found.get("cluster", CLUSTER)
        if not is_cluster_name(cluster):
            self.refuse(("cluster",), f"{shown(cluster)} is not valid; {CLUSTER_NAME}")
        if found.get("memory", NO_MEMORY) != NO_MEMORY:
            self.refuse(("memory",), f"memory = {shown(found['memory'])} is not valid; {MEMORY}")
        if "memory" in found and "data" in found:
            self.refuse(
                ("memory",),
                f'memory = "{NO_MEMORY}" and a data folder exclude each other; remove one of the'
                " two lines",
            )
        folder = Path(self.folder)
        paths = {
            name: folder / chosen[name] if chosen[name] else None
            for name in ("data", "secret_file", "record")
        }
        bind = None if chosen["bind"] is None else self.address(("bind",), chosen["bind"])
        nodes = self.nodes()
        metrics = chosen["metrics"] or ""
        shown_at = [
            self.address(("metrics",), metrics.replace("{id}", str(node)))
            for node in nodes
            if metrics
        ]
        config = Config(
            cluster,
            nodes,
            self._services(),
            Path(self.path),
            **paths,
            has_memory="memory" not in found or paths["data"] is not None,
            bind=bind,
            metrics=metrics,
            insecure=bool(chosen["insecure"]),
            release_on_disconnect=self.typed(
                ("release_on_disconnect",), found.get("release_on_disconnect", False), bool
            ),
            tls=self._tls(),
            socket=self.socket(),
            semaphores=self._semaphores(),
            secrets=self._secrets(folder, paths["secret_file"] is not None),
            rules=self._rules(),
            written_version=self.written_version(),
        )
        config.check_exposure([*config.nodes.values(), *([bind] if bind else []), *shown_at])
        return config

    def _services(self) -> Mapping[str, ServiceConfig]:
        found_services = self.table(("services",))
        services: dict[str, ServiceConfig] = {}
        for name, found in found_services.items():
            at = ("services", name)
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", name):
                self.refuse(
                    at,
                    f"{name!r} is not a name for a service; use 1 to 40 letters, digits, hyphens"
                    " and underscores",
                )
            self.typed(at, found, dict)
            self._known(at, found, ("algorithm", "options", "over", "shared"))
            if "algorithm" not in found:
                self.refuse(
                    at,
                    f'[services.{name}] names no algorithm; write algorithm = "ricart-agrawala",'
                    " for example",
                )
            algorithm = self.typed((*at, "algorithm"), found["algorithm"], str)
            options = self.typed((*at, "options"), found.get("options", {}), dict)
            over = self.typed((*at, "over"), found.get("over", ""), str)
            shared = (
                None
                if "shared" not in found
                else self.typed((*at, "shared"), found["shared"], bool)
            )
            given = (
                f"{key}={self._option((*at, 'options', key), value)}"
                for key, value in options.items()
            )
            services[name] = ServiceConfig(algorithm, tuple(given), over, shared)
        return services or IMPLIED_SERVICES

    def _option(self, at: tuple[str, ...], value: object) -> str:
        try:
            return value if isinstance(value, str) else json.dumps(value)
        except TypeError:
            self.refuse(
                at,
                f"{'.'.join(at)} must be text, a number, true, false, or a list or table of these,"
                f" not {shown(value)}",
            )

    def _semaphores(self) -> dict[str, int]:
        found = self.table(("semaphores",))
        for name, size in found.items():
            at = ("semaphores", name)
            if not 1 <= self.typed(at, size, int) <= NAMES_LIMIT:
                self.refuse(at, f"semaphore {shown(name)} has size {size}; use 1 to {NAMES_LIMIT}")
            if not 0 < len(name) <= SEMAPHORE_NAME_LIMIT or not name.isprintable():
                self.refuse(
                    at,
                    f"{shown(name)} is not a name for a semaphore; use 1 to"
                    f" {SEMAPHORE_NAME_LIMIT} printable characters",
                )
        return dict(found)

    def _secrets(self, folder: Path, has_secret: bool) -> dict[str, Path]:
        found = self.table(("secrets",))
        if found and not has_secret:
            self.refuse(
                ("secrets",), "[secrets] needs a secret_file, which the nodes themselves use"
            )
        for name in found:
            if secret_name(f"{name}:".encode()) != name or name in (BY_SECRET[1:], BY_SOCKET[1:]):
                self.refuse(
                    ("secrets", name),
                    f"{shown(name)} is not a name for a secret; use 1 to 40 lower-case letters and"
                    " digits, but neither secret nor socket",
                )
            self.text(("secrets", name))
        return {name: folder / file for name, file in found.items()}

    def _rules(self) -> tuple[AccessRule, ...]:
        found = self.found.get("rules", [])
        if not isinstance(found, list):
            self.refuse(("rules",), "rules must be a list of tables; write [[rules]]")
        made = []
        for number, each in enumerate(found, 1):
            at, what = ("rules",), f"rule {number}"
            self.typed(at, each, dict)
            self._known(at, each, AccessRule._fields)
            for key in AccessRule._fields:
                if key not in each:
                    self.refuse(at, f"{what} has no {key}; write who, may and names")
                texts = each[key]
                if not (texts and isinstance(texts, list) and all(type(t) is str for t in texts)):
                    self.refuse(at, f'{key} of {what} must be a list of texts, such as ["*"]')
            rule = AccessRule(*(tuple(each[key]) for key in AccessRule._fields))
            self._check_rule(at, what, rule)
            made.append(rule)
        return tuple(made)

    def _check_rule(self, at: tuple[str, ...], what: str, rule: AccessRule) -> None:
        for action in rule.may:
            if action not in ACTIONS:
                self.refuse(at, f"{shown(action)} is not allowed in may; use {', '.join(ACTIONS)}")
        for name in rule.names:
            if why := pattern_error(name):
                self.refuse(at, f"name {shown(name)} of {what}: {why}")
        for who in rule.who:
            if why := who_error(who, self.table(("secrets",))):
                self.refuse(at, f"client {shown(who)} of {what}: {why}")

    def _tls(self) -> TlsFiles | None:
        if "tls" not in self.found:
            return None
        tls = self.table(("tls",))
        self._known(("tls",), tls, TlsFiles._fields)
        for name in TlsFiles._fields:
            if name not in tls:
                self.refuse(("tls",), f"[tls] has no {name}; write ca, certificate and key")
            self.text(("tls", name))
        return TlsFiles(Path(self.folder) / tls["ca"], tls["certificate"], tls["key"])

    # Errors, with the line of the file.

    def _known(self, at: tuple[str, ...], found: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in found:
            if key not in known:
                hint = did_you_mean(key, known)
                self.refuse(
                    (*at, key),
                    f"unknown key {key!r}{f' in [{chr(46).join(at)}]' if at else ''}; {hint}",
                )

    def _flag(self, name: str, value: str) -> bool:
        if value.lower() not in ("1", "true", "yes", "0", "false", "no"):
            raise BadConfig(f"HABEMUS_{name.upper()}={value}: write true or false")
        return value.lower() in ("1", "true", "yes")
