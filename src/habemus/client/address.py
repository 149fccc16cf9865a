"""Addresses of clusters and nodes, as users write them.

A cluster is named by the addresses of nodes (`10.0.0.1:7400,10.0.0.2:7400`), by the local socket of
a node, by its `cluster.toml`, or by the folder of `habemus up`.  The default is HABEMUS_CLUSTER,
then the folder `.habemus` here, then the last folder of `habemus up`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from habemus.client.errors import Unreachable
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


def cluster_address(named: str | None = None) -> ClusterAddress:
    """Return the address of a cluster; `Unreachable` if none is named and there is no default."""
    named = cluster_meant(named)
    if not named:
        raise Unreachable(
            "no cluster is named: set HABEMUS_CLUSTER=host:port, or start a cluster with"
            " `habemus up`"
        )
    if os.path.isdir(named):  # noqa: PTH112
        return _in_folder(named)
    if named.endswith(".toml"):
        return _in_file(named)
    if "/" in named or named.endswith(".sock"):
        return ClusterAddress([NodeAddress(named)])
    return ClusterAddress([_address(each.strip()) for each in named.split(",") if each.strip()])


def _in_folder(folder: str) -> ClusterAddress:
    file = _path(folder, SECRET)
    secret = secret_in(file) if os.path.exists(file) else None  # noqa: PTH110
    return ClusterAddress([NodeAddress(path) for path in sockets_in(folder)], secret, folder=folder)


def _in_file(path: str) -> ClusterAddress:
    """Read a cluster.toml; local sockets that exist come first."""
    import tomllib

    folder = os.path.dirname(path) or "."  # noqa: PTH120
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = tomllib.load(file)
    except OSError as reason:
        raise Unreachable(f"{reason.filename}: {reason.strerror}") from None
    except tomllib.TOMLDecodeError as reason:
        raise ValueError(f"{path}: {reason}") from None
    for name, kind in (("nodes", dict), ("socket", str), ("secret_file", str), ("tls", dict)):
        _check_kind(path, name, found.get(name, kind()), kind)
    nodes = found.get("nodes", {})
    for number, address in nodes.items():
        _check_kind(path, f"nodes.{number}", address, str)
    socket = found.get("socket", "")
    local = [NodeAddress(_path(folder, socket.replace("{id}", node))) for node in nodes if socket]
    places = [place for place in local if os.path.exists(place.path)] + [  # noqa: PTH110
        _address(each) for each in nodes.values()
    ]
    secret_file = found.get("secret_file", "")
    secret = secret_in(_path(folder, secret_file)) if secret_file else None
    authority = found.get("tls", {}).get("ca", "")
    _check_kind(path, "tls.ca", authority, str)
    return ClusterAddress(places, secret, _path(folder, authority) if authority else "")


def _check_kind(path: str, name: str, found: object, kind: type) -> None:
    if type(found) is not kind:
        raise ValueError(
            f"{path}: {name} must be {'a table' if kind is dict else 'a string'}, not {found!r}"
        )


def _path(folder: str, named: str) -> str:
    """Return a path named in a cluster.toml: absolute, or relative to its folder."""
    return os.path.join(folder, named)  # noqa: PTH118


def secret_in(path: str) -> bytes:
    """Return the secret in a file, without a newline at its end; `ValueError` if it is empty."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            secret = file.read().strip()
    except OSError as reason:
        raise ValueError(f"secret file {path}: {reason.strerror}") from None
    if not secret:
        raise ValueError(f"secret file {path} is empty")
    return secret


def _address(text: str) -> NodeAddress:
    host, colon, port = text.rpartition(":")
    if (
        not colon
        or not (port.isascii() and port.isdecimal())
        or not 0 < int(port) < 65_536
        or not host.strip("[]")
    ):
        raise ValueError(
            f'{text!r} is not the address of a cluster: write "127.0.0.1:7400", or the path of a'
            " socket, a cluster.toml or a folder"
        )
    return NodeAddress(host=host.strip("[]"), port=int(port))
