"""Changes of members by `habemus member`, and the nodes in a cluster.toml that it rewrites."""

from pathlib import Path
from typing import Any

import pytest

from habemus.operations.cluster_view import NodeStatus
from habemus.operations.members import MemberChanges, NotChanged, with_nodes
from habemus.runtimes.live.cluster_file import ClusterFile

TEXT = """\
cluster = "office"  # ours
[nodes]
# in the cellar
1 = "10.0.0.1:7400"  # the old one
"2" = '10.0.0.2:7400'

[tls]
ca = "ca.pem"
"""


def test_only_nodes_change_and_comments_stay() -> None:
    changed = with_nodes(TEXT, {1: "10.0.0.1:7400", 3: "10.0.0.3:7400"}, 4)
    assert changed is not None
    assert changed.splitlines() == [
        'cluster = "office"  # ours',
        changed.splitlines()[1],
        "# in the cellar",
        '1 = "10.0.0.1:7400"  # the old one',
        '3 = "10.0.0.3:7400"',
        "",
        "[tls]",
        'ca = "ca.pem"',
    ]
    assert changed.splitlines()[1].startswith("[nodes]  # configuration 4 ")


def test_a_table_that_is_not_plain_is_left_alone() -> None:
    assert with_nodes('nodes = { 1 = "10.0.0.1:7400" }\n', {1: "10.0.0.1:7400"}, 1) is None
    assert with_nodes("[nodes]\n1 =\\\n 2\n", {1: "10.0.0.1:7400"}, 1) is None


def test_an_edit_by_hand_is_told_from_one_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT)
    assert ClusterFile(str(file)).written_version() is None
    changed = with_nodes(TEXT, {1: "10.0.0.1:7400", 3: "10.0.0.3:7400"}, 4)
    assert changed is not None
    file.write_text(changed)
    assert ClusterFile(str(file)).written_version() == 4
    file.write_text(changed.replace("10.0.0.3", "10.0.0.4"))
    assert ClusterFile(str(file)).written_version() is None
    file.write_text(changed.replace("configuration 4", "configuration 5"))
    assert ClusterFile(str(file)).written_version() is None


def test_a_client_that_may_not_see_the_members_hears_which_permission_it_needs() -> None:
    """And does not wait for a leader, which the nodes do not show to it."""

    class Client:
        address = "10.0.0.1:7400"

        def status(self) -> NodeStatus:
            return NodeStatus(self.address, None, "alice may not see the status", True)

    class Survey:
        clients: dict[int, Any] = {1: Client()}

    changes = MemberChanges(Survey(), 3_600)  # type: ignore[arg-type]
    with pytest.raises(NotChanged) as refused:
        changes.view()
    assert str(refused.value) == (
        "10.0.0.1:7400: alice may not see the status; changes of members need the permission"
        ' "members"'
    )
