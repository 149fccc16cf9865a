"""Ids, addresses and the system that a group is."""

import pytest

from habemus.deployment.services import live_system
from habemus.printing.group import BadGroup, Group, client_id, peers_of
from habemus.printing.serving import CannotServe, address, check_exposure, is_stamp
from habemus.runs.setup import Setup
from habemus.runtimes.live.cluster_file import Address


def test_peers_as_a_user_writes_them() -> None:
    assert peers_of("2=127.0.0.1:50053, 7=[::1]:50054,0=host.example:1") == {
        2: Address("127.0.0.1", 50_053),
        7: Address("::1", 50_054),
        0: Address("host.example", 1),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a peer"),
        ("2", "is not a peer"),
        ("2=", "is not an address"),
        ("2=host", "is not an address"),
        ("2=host:0", "is not an address"),
        ("2=host:65536", "is not an address"),
        ("2=host:1:2", "is not an address"),
        ("x=host:1", "is not the id"),
        ("-2=host:1", "is not the id"),
        ("2147483648=host:1", "is not the id"),
        ("²=host:1", "is not the id"),
        ("2=host:1,2=host:2", "given twice"),
        ("2=host:1,3=host:1", "two peers have the address"),
    ],
)
def test_peers_that_cannot_be_meant(text: str, why: str) -> None:
    with pytest.raises((BadGroup, CannotServe), match=why):
        peers_of(text)


def test_processes_are_the_clients_in_the_order_of_their_ids() -> None:
    group = Group(7, {12: Address("h", 1), 0: Address("h", 2)})
    assert group.ids == (0, 7, 12)
    assert [group.process(client) for client in group.ids] == [1, 2, 3]
    assert [group.client(process) for process in (1, 2, 3)] == [0, 7, 12]
    assert group.service().system.labels == {1: "client 0", 2: "client 7", 3: "client 12"}


def test_nobody_is_his_own_peer() -> None:
    with pytest.raises(BadGroup, match="in --peers as well"):
        Group(2, {2: Address("h", 1)})


def test_the_algorithm_is_the_catalogs_with_notices_and_the_unsafe_one_only_if_told_so() -> None:
    usual, hasty = (
        Group(1, {2: Address("h", 1)}),
        Group(1, {2: Address("h", 1)}, give_up_us=5_000_000),
    )
    assert usual.usual_setup() == Setup(
        "ricart-agrawala", 2, options=("notices",), labels=("1=client 1", "2=client 2")
    )
    assert hasty.usual_setup().algorithm == "ra-timeout"
    assert Group(1, {2: Address("h", 1)}, notices=False).usual_setup() == Setup(
        "ricart-agrawala", 2, labels=("1=client 1", "2=client 2")
    )
    plans = live_system(hasty.usual_setup()).plans
    assert [getattr(plan, "timeout", None) for plan in plans.values()] == [5_000_000, 5_000_000]
    assert all(getattr(plan, "notices", False) for plan in plans.values())


def test_ids_are_those_of_the_wire() -> None:
    assert [client_id(text) for text in ("0", " 12 ", str(2**31 - 1))] == [0, 12, 2**31 - 1]


def test_other_machines_are_only_talked_to_if_the_user_says_so() -> None:
    check_exposure(
        [Address("127.0.0.1", 1), Address("::1", 1), Address("localhost", 1)], insecure=False
    )
    check_exposure([Address("0.0.0.0", 1)], insecure=True)
    for host in ("0.0.0.0", "10.0.0.1", "::", "host.example"):
        with pytest.raises(CannotServe, match="--insecure"):
            check_exposure([Address("127.0.0.1", 1), Address(host, 1)], insecure=False)


def test_an_address_has_a_port() -> None:
    assert address(" localhost:50051 ") == Address("localhost", 50_051)


@pytest.mark.parametrize(
    ("stamp", "can_be"),
    [(0, True), (1, True), (2**62, True), (-1, False), (2**63 - 1, False), (-(2**63), False)],
)
def test_what_a_clock_can_read(stamp: int, can_be: bool) -> None:
    assert is_stamp(stamp) is can_be
