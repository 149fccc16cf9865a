"""Durable variables: read, encoded as plain values, and decoded again; all else is refused."""

import json
from typing import Any

import pytest

from habemus.algorithms.links.perfect import PerfectLinks
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinatorLeased
from habemus.algorithms.mutex.elected_coordinator_participant import Loan
from habemus.algorithms.mutex.quorum import QuorumDurable
from habemus.catalog.entries import entries
from habemus.core.node import PureNode, Stack
from habemus.core.shapes import Malformed
from habemus.core.stable import Stable


@pytest.mark.parametrize(
    "name",
    [name for name, entry in entries().items() if Stack(entry.system(3, {}).plans[1]).durable],
)
def test_it_is_what_a_crash_leaves(name: str) -> None:
    system = entries()[name].system(3, {})
    stack = Stack(system.plans[1])
    node = PureNode(stack, 1, system.topology.neighbours[1], lambda options: options[-1])
    node.start()
    for request in ("acquire", "elect"):
        if request in type(node.parts[0]).__behaviour__.requests:
            node.request(request)
    plain = json.loads(json.dumps(Stable(stack).plain(node.parts)))
    assert Stable(stack).state(plain) == stack.forget(node.capture())


def test_messages_that_links_keep_are_those_of_the_process_above() -> None:
    plan = QuorumDurable(voters=(1, 2, 3), needed=2).over(PerfectLinks())
    stack = Stack(plan)
    node = PureNode(stack, 1, (2, 3), lambda options: options[0])
    before = Stable(stack).taken(node.parts)
    node.start()
    node.request("acquire")
    assert Stable(stack).taken(node.parts) != before
    assert not Stable(stack).are_unchanged(node.parts, before)
    assert Stable(stack).are_unchanged(node.parts, Stable(stack).taken(node.parts))
    state = Stable(stack).state(json.loads(json.dumps(Stable(stack).plain(node.parts))))
    again = PureNode(stack, 1, (2, 3), lambda options: options[0])
    again.restore(state)
    assert Stable(stack).taken(again.parts) == Stable(stack).taken(node.parts)


def test_a_sync_is_needed_only_for_what_a_crash_of_the_machine_must_not_set_back() -> None:
    system = ElectedCoordinatorLeased.system(3, ahead=5)
    stack = Stack(system.plans[1])
    stable, node = Stable(stack), PureNode(stack, 1, (2, 3), lambda options: options[0])
    top = node.parts[0]
    assert isinstance(top, ElectedCoordinatorLeased)
    before = stable.taken(node.parts)
    top.loan = Loan(1, (1, 1), 2, 1)
    assert not stable.are_unchanged(node.parts, before)
    assert not stable.must_sync(node.parts, before)
    node.request("acquire")  # reserves numbers
    assert stable.must_sync(node.parts, before)
    assert stable.down_us == top.lease + top.lease // 10


@pytest.mark.parametrize(
    "options", [{"lease": 0}, {"elected_by": "bully"}, {"elected_by": "omega-recovery"}]
)
def test_without_leases_or_terms_every_record_is_synced(options: dict[str, Any]) -> None:
    """A coordinator of the next life would not know the holder, or count tokens anew."""
    stable = Stable(Stack(ElectedCoordinatorLeased.system(3, **options).plans[1]))
    assert stable.down_us == 0


@pytest.mark.parametrize("wrong", [None, [], {}, [1], ["x", None, [], []], [0, None, [], [], 5]])
def test_anything_else_is_refused(wrong: object) -> None:
    stack = Stack(QuorumDurable(voters=(1, 2, 3), needed=2))
    with pytest.raises(Malformed):
        Stable(stack).state(wrong)
