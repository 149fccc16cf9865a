"""The parts behind a client of a cluster's nodes, for tests that look inside."""

from __future__ import annotations

from habemus.client.async_node_backend import AsyncNodeBackend
from habemus.client.asynchronous import AsyncCluster
from habemus.client.blocking import Cluster
from habemus.client.lease import Lease
from habemus.client.node_backend import NodeBackend
from habemus.client.session import NodeSession


def nodes_of(cluster: Cluster) -> NodeBackend:
    assert isinstance(cluster._backend, NodeBackend)
    return cluster._backend


def async_nodes_of(cluster: AsyncCluster) -> AsyncNodeBackend:
    assert isinstance(cluster._backend, AsyncNodeBackend)
    return cluster._backend


def session_of(lease: Lease) -> NodeSession:
    assert isinstance(lease._session, NodeSession)
    return lease._session
