"""`habemus status`: who leads, who holds, who waits."""

from __future__ import annotations

from dataclasses import replace

import click

from habemus.cli.commands.lock import cluster_options, service_option
from habemus.cli.output import Exit, json_option, say_json
from habemus.cli.tables import say_table
from habemus.operations.cluster_view import (
    ClusterView,
    LockView,
    NodeView,
    listed,
    shown_name,
    shown_time,
)
from habemus.supervise.locked_command import UNREACHABLE


@click.command(epilog="Example: habemus status printer --json")
@click.argument("name", required=False)
@cluster_options
@service_option
@json_option
def status(
    name: str | None, cluster: str | None, service: str, as_json: bool, **papers: str | None
) -> int:
    """Ask every node of a cluster what goes on, or how the lock NAME stands.

    \b
    Exit codes:
      0    all is well
      1    a node does not answer, does not reach another, or has another configuration; or nobody leads
      125  no node answers
    """
    from habemus.client.errors import Unreachable
    from habemus.operations.node_survey import survey_cluster

    try:
        survey = survey_cluster(cluster, **papers)
    except Unreachable as reason:
        click.echo(f"habemus: {reason}", err=True)
        return UNREACHABLE
    seen = survey.look()
    survey.close()
    if name is not None:
        locks = [lock for lock in seen.locks if (lock.service, lock.name) == (service, name)]
        seen = replace(seen, locks=tuple(locks or [LockView(service, name)]))
    if as_json:
        say_json(seen.plain())
    else:
        if name is None:
            say_nodes(seen)
        say_locks(seen)
    return Exit.AS_WANTED if seen.is_well else Exit.NOT_AS_WANTED


def say_nodes(seen: ClusterView) -> None:
    election = seen.election
    leads = (
        ""
        if election is None
        else (
            "; nobody leads"
            if election.leader is None
            else f"; node {election.leader} leads, term {election.term}"
        )
    )
    up = sum(node.up for node in seen.nodes)
    click.echo(f"cluster {seen.cluster}: {up} of {len(seen.nodes)} nodes are up{leads}")
    for trouble in seen.troubles():
        click.echo(trouble)
    heads = (
        "node",
        "address",
        "pid",
        "reaches",
        *(("leader", "term") if election else ()),
        "suspects",
    )
    rows = [node_row(node, has_leader=election is not None) for node in seen.nodes]
    say_table(heads, rows, left=len(heads))


def node_row(node: NodeView, *, has_leader: bool) -> list[str]:
    leader = [_or_dash(node.leader), _or_dash(node.term)] if has_leader else []
    if not node.up:
        return [
            str(node.node),
            node.address,
            "-",
            f"down: {node.why}",
            *(["-", "-"] if has_leader else []),
            "-",
        ]
    return [
        str(node.node),
        node.address,
        str(node.pid),
        listed(node.reaches),
        *leader,
        listed(node.suspects),
    ]


def say_locks(seen: ClusterView) -> None:
    if not seen.locks:
        click.echo("nobody holds or awaits a lock")
        return
    heads = ("lock", "holder", "node", "token", "for", "waiting")
    say_table(heads, [lock_row(lock) for lock in seen.locks], left=len(heads))


def lock_row(lock: LockView) -> list[str]:
    waiting = ", ".join(f"{each.client} (node {each.node})" for each in lock.waiting) or "nobody"
    held = "-" if lock.held_ms is None else shown_time(lock.held_ms)
    return [
        shown_name(lock),
        lock.holder or "nobody",
        _or_dash(lock.node),
        _or_dash(lock.token),
        held,
        waiting,
    ]


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
