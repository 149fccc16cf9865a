"""`habemus member`: add, remove and replace nodes of a running cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from habemus.cli.commands.lock import cluster_options
from habemus.cli.output import Exit, FiniteRange, json_option, say_json
from habemus.cli.tables import say_table

if TYPE_CHECKING:
    from habemus.operations.members import MemberChanges, MembersView
    from habemus.runtimes.live.cluster_file import Address

SECONDS = 30.0
EXITS = """
    \b
    Exit codes:
      0    done
      1    not done: refused, or timed out; run the command again to go on
      125  no node answers
"""

timeout_option = click.option(
    "--timeout",
    type=FiniteRange(0, 3_600),
    default=SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time; what has been done stays.",
)
number_argument = click.argument("number", type=click.IntRange(1, 100))


@click.group(epilog="Example: habemus member add 4 10.0.0.4:7400")
def member() -> None:
    """Change the nodes of a running cluster.

    The algorithm of its locks has to be one whose members change, such as
    elected-coordinator-leased-members.  See docs/members.md.
    """


@member.command("list", epilog="Example: habemus member list --json")
@cluster_options
@timeout_option
@json_option
def list_(
    cluster: str | None, timeout: float, as_json: bool, **credential_files: str | None
) -> int:
    """Show members and learners, as the leader knows them."""
    return _run(
        cluster, credential_files, timeout, as_json, lambda changes: changes.view(), _say_list
    )


@member.command(epilog="Example: habemus member add 4 10.0.0.4:7400")
@number_argument
@click.argument("address")
@cluster_options
@timeout_option
@json_option
def add(
    number: int,
    address: str,
    cluster: str | None,
    timeout: float,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Add node NUMBER, which waits at ADDRESS, to the members.

    Start it before: habemus node --config cluster.toml --id NUMBER --join --bind ADDRESS
    """
    at = _address(address)
    done = f"node {number} is a member"
    return _run(
        cluster,
        credential_files,
        timeout,
        as_json,
        lambda changes: changes.add(number, at),
        _said(done),
    )


@member.command(epilog="Example: habemus member remove 4")
@number_argument
@cluster_options
@timeout_option
@json_option
def remove(
    number: int, cluster: str | None, timeout: float, as_json: bool, **credential_files: str | None
) -> int:
    """Remove node NUMBER from the cluster.  If it is up, it stops."""
    done = f"node {number} is removed"
    return _run(
        cluster,
        credential_files,
        timeout,
        as_json,
        lambda changes: changes.remove(number),
        _said(done),
    )


@member.command(epilog="Example: habemus member replace 3")
@number_argument
@click.argument("address", required=False)
@cluster_options
@timeout_option
@json_option
def replace(
    number: int,
    address: str | None,
    cluster: str | None,
    timeout: float,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Put a node with an empty disk in the place of node NUMBER, which has lost its own.

    Start it before: habemus node --config cluster.toml --id NUMBER --join.  With ADDRESS, it is at
    another address than before; a node that still has its disk moves there.
    """
    at = None if address is None else _address(address)
    done = f"node {number} is replaced"
    return _run(
        cluster,
        credential_files,
        timeout,
        as_json,
        lambda changes: changes.replace(number, at),
        _said(done),
    )


for _command in (list_, add, remove, replace):
    _command.help = f"{_command.help}\n{EXITS}"


def _address(text: str) -> Address:
    from habemus.runtimes.live.cluster_file import parsed_address

    found = parsed_address(text)
    if found is None:
        raise click.UsageError(f'{text!r} is not an address; write "10.0.0.4:7400"')
    return found


def _run(
    cluster: str | None,
    credential_files: dict[str, str | None],
    seconds: float,
    as_json: bool,
    change: Callable[[MemberChanges], MembersView],
    say: Callable[[MembersView], None],
) -> int:
    from habemus.client.errors import RefusedByNode
    from habemus.operations.members import MemberChanges, NotChanged
    from habemus.operations.node_survey import survey_cluster

    changes = MemberChanges(survey_cluster(cluster, **credential_files), seconds)
    try:
        view = change(changes)
    except (NotChanged, RefusedByNode) as reason:
        click.echo(f"habemus: {reason}", err=True)
        return Exit.FAILED
    finally:
        changes.close()
    _write_file(cluster, view)
    if as_json:
        say_json(view.plain())
    else:
        say(view)
    return Exit.OK


def _write_file(cluster: str | None, view: MembersView) -> None:
    """Write the nodes into the cluster.toml that names the cluster, if there is one here."""
    from habemus.operations.members import with_nodes
    from habemus.runtimes.live.default_cluster import cluster_meant

    named = Path(cluster_meant(cluster) or "")
    path = named / "cluster.toml" if named.is_dir() else named
    if path.suffix != ".toml" or not path.is_file():
        return
    if not view.version:
        return
    text = path.read_text(encoding="utf-8")
    changed = with_nodes(text, view.nodes, view.version)
    if changed is None:
        click.echo(f"habemus: edit [nodes] of {path} yourself: it is not a plain table", err=True)
    elif changed != text:
        draft = path.with_suffix(".new")
        draft.write_text(changed, encoding="utf-8")
        draft.chmod(path.stat().st_mode)
        draft.replace(path)


def _said(done: str) -> Callable[[MembersView], None]:
    def say(view: MembersView) -> None:
        from habemus.operations.members import listed

        click.echo(f"{done}; members are {listed(view.members)} (configuration {view.version})")
        if len(view.members) % 2 == 0:
            click.echo(
                f"habemus: {len(view.members)} members tolerate no more failures than"
                f" {len(view.members) - 1}; an odd number is better",
                err=True,
            )

    return say


def _say_list(view: MembersView) -> None:
    rows = [
        [
            str(node),
            address,
            "member" if node in view.members else "learner",
            "leads" if node == view.leader else "-",
        ]
        for node, address in sorted(view.nodes.items())
    ]
    settled = "" if view.may_change else "; a change is under way"
    click.echo(f"configuration {view.version}{settled}")
    say_table(("node", "address", "role", "leader"), rows, left=4)
