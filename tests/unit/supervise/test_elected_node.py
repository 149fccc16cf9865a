"""Which service elects nodes, among those of a cluster."""

import pytest

from habemus.supervise.elected_node import election_service

LOCKS = {"locks": {"problem": "mutex"}, "locks-election": {"problem": "election"}}
ELECTIONS = {"elections": {"problem": "election"}}


@pytest.mark.parametrize(
    ("services", "named", "found"),
    [
        (LOCKS, "locks", None),
        (LOCKS, "other", None),  # the election of the locks is not for clients
        (LOCKS, "locks-election", "locks-election"),  # unless they name it
        (ELECTIONS, "locks", "elections"),
        (ELECTIONS, "elections", "elections"),
        (LOCKS | ELECTIONS, "locks", None),
        (LOCKS | ELECTIONS, "elections", "elections"),
        (ELECTIONS | {"more": {"problem": "election"}}, "locks", None),
    ],
)
def test_the_named_service_or_the_only_one_elects_nodes(
    services: dict[str, dict[str, str]], named: str, found: str | None
) -> None:
    assert election_service(services, named) == found
