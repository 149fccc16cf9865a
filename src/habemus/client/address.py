"""Addresses of clusters and nodes, as users write them.

A cluster is named by the addresses of nodes (`10.0.0.1:7400,10.0.0.2:7400`), by the local socket of
a node, by its `cluster.toml`, or by the folder of `habemus up`.  The default is HABEMUS_CLUSTER,
then the folder `.habemus` here, then the last folder of `habemus up`.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from habemus.client.engines import without_password
from habemus.client.errors import Unreachable
from habemus.runtimes.live.cluster_file import ClusterFile, secret_in
from habemus.runtimes.live.default_cluster import SECRET, cluster_meant, sockets_in


class NodeAddress(NamedTuple):
    """The address of a node: the path of a local socket, or host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return self.path or (
            f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        )


class ClusterAddress(NamedTuple):
    """The addresses of a cluster's nodes, and the credentials that its files have."""

    nodes: list[NodeAddress]
    secret: bytes | None = None
    authority: str = ""  # the file of the certificate of the authority
    folder: str = ""  # of `habemus up`
    told: tuple[NodeAddress, ...] = ()
    """Nodes that other nodes have named: tried if none of the others answers."""

    @property
    def is_one_socket(self) -> bool:
        """Whether it is the local socket of a node, which the client does not leave."""
        return len(self.nodes) == 1 and bool(self.nodes[0].path) and not self.folder

    def resolved(self) -> ClusterAddress:
        """Return the same with all addresses of a name that has several, as it resolves now."""
        return self._replace(nodes=[each for node in self.nodes for each in _resolved(node)])


def cluster_address(named: str | None = None) -> ClusterAddress:
    """Return the address of a cluster; `Unreachable` if none is named and there is no default."""
    named = cluster_meant(named)
    if not named:
        raise Unreachable(
            "no cluster is named: set HABEMUS_CLUSTER=host:port, start a cluster with `habemus up`,"
            " or use HABEMUS_CLUSTER=local for locks between the processes of this machine"
        )
    if named == "local" or "://" in named:
        raise ValueError(
            f"{without_password(named)!r} is an engine and has no nodes: name a cluster, such as"
            " 127.0.0.1:7400 or a cluster.toml; `habemus status` shows the locks of an engine"
        )
    if os.path.isdir(named):
        return _in_folder(named)
    if "@" in named and not named.startswith(("/", ".")) and not os.path.exists(named):
        raise ValueError(  # no node has a name with @, but a URL with a password may have
            f"{without_password(named)!r} is not the address of a cluster: write"
            ' "127.0.0.1:7400", or a URL such as redis://:password@127.0.0.1:6379'
        )
    if named.endswith(".toml"):
        return _in_file(named)
    if "/" in named or named.endswith(".sock"):
        return ClusterAddress([NodeAddress(named)])
    texts = [each.strip() for each in named.split(",") if each.strip()]
    return ClusterAddress([_address(each) for each in texts or [named]])


def told_nodes(welcome: dict[str, Any]) -> tuple[NodeAddress, ...]:
    """Return the nodes that a node has named."""
    found = []
    for text in welcome["nodes"].values():
        with suppress(ValueError, AttributeError):  # of a node that is not trusted
            found.append(_address(text))
    return tuple(found)


def _resolved(node: NodeAddress) -> list[NodeAddress]:
    found: list[Any] = []
    if not node.path:
        with suppress(OSError):  # the attempt to connect reports it
            found = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
    return distinct(node, found)


def distinct(node: NodeAddress, found: list[Any]) -> list[NodeAddress]:
    """Return the addresses of a name that `getaddrinfo` has found; the name if it has one."""
    places = list(dict.fromkeys((str(each[4][0]), int(each[4][1])) for each in found))
    return [NodeAddress("", *each) for each in places] if len(places) > 1 else [node]


def _in_folder(folder: str) -> ClusterAddress:
    file = os.path.join(folder, SECRET)
    secret = secret_in(file) if os.path.exists(file) else None
    return ClusterAddress([NodeAddress(path) for path in sockets_in(folder)], secret, folder=folder)


def _in_file(path: str) -> ClusterAddress:
    """Read a cluster.toml; local sockets that exist come first."""
    try:
        file = ClusterFile(path)
    except OSError as reason:
        raise Unreachable(f"{path}: {reason.strerror}") from None
    nodes, template = file.nodes(), file.socket()
    local = [NodeAddress(file.path_of(template.replace("{id}", str(node)))) for node in nodes]
    places = [place for place in local if template and os.path.exists(place.path)] + [
        NodeAddress(host=address.host, port=address.port) for address in nodes.values()
    ]
    secret_file, authority = file.text(("secret_file",)), file.text(("tls", "ca"))
    return ClusterAddress(
        places,
        secret_in(file.path_of(secret_file)) if secret_file else None,
        file.path_of(authority) if authority else "",
    )


def _address(text: str) -> NodeAddress:
    host, colon, port = text.rpartition(":")
    if (
        not colon
        or not (port.isascii() and port.isdecimal())
        or not 0 < int(port) < 65_536
        or not host.strip("[]")
    ):
        # a word may be a misspelled engine, such as "Local" or "redis"
        engines = ', "local", or a URL such as redis://127.0.0.1:6379' if text.isalpha() else ""
        raise ValueError(
            f'{text!r} is not the address of a cluster: write "127.0.0.1:7400", the path of a'
            f" socket, a cluster.toml or a folder{engines}"
        )
    return NodeAddress(host=host.strip("[]"), port=int(port))
