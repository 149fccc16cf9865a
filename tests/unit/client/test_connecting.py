"""The order in which a client tries the nodes."""

from __future__ import annotations

from habemus.client.address import NodeAddress
from habemus.client.attempts import in_order


def test_nodes_that_a_client_was_given_come_first_and_those_that_it_has_left_last() -> None:
    local, given, told, left = (
        NodeAddress("x.sock"),
        *(NodeAddress("", "127.0.0.1", port) for port in (1, 2, 3)),
    )
    assert in_order([given, local], [given, told], {}) == [local, given, told]
    assert in_order([left, given], [told], {left: 1.0}) == [given, told, left]
    assert in_order([left, given], [told], {left: 1.0, told: 2.0}) == [given, left, told]
