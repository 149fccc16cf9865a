"""What an application imports: `habemus.connect`, and what that gives.

The same semantics twice: `with habemus.connect() as cluster` blocks, `async with habemus.connect()
as cluster` does not.
"""

from __future__ import annotations

from habemus.client.blocking import Cluster, Election, Lock, Standing
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, LockLost, LockTimeout, RefusedByNode, Unreachable
from habemus.client.lease import Lease

__all__ = [
    "Cluster",
    "Election",
    "HabemusError",
    "Lease",
    "Lock",
    "LockLost",
    "LockTimeout",
    "RefusedByNode",
    "Standing",
    "Unreachable",
    "connect",
]


def connect(
    cluster: str | None = None,
    *,
    name: str | None = None,
    secret: bytes | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    secret_file: str | None = None,
) -> Cluster:
    """A cluster, to be used by `with` or `async with`, or closed by hand.

    cluster: addresses of nodes, a socket, a cluster.toml or the folder of `habemus up`; without it, HABEMUS_CLUSTER and what
        `habemus up` left.
    name: what others see of this client; without it, its host and process.
    secret or secret_file, ca, certificate, key: how to show who one is, where the cluster asks for it; without them,
        HABEMUS_SECRET_FILE, HABEMUS_CA, HABEMUS_CERTIFICATE and HABEMUS_KEY.
    """
    return Cluster(cluster, Credentials.given(secret, ca, certificate, key, secret_file), name)
