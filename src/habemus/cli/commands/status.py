"""`habemus status`: nodes, leader, lock holders and waiting clients of a cluster."""

from __future__ import annotations

from dataclasses import replace

import click

from habemus.cli.commands.lock import cluster_options, service_option
from habemus.cli.engine_commands import is_engine_named, say_engine
from habemus.cli.output import Exit, json_option, say_json
from habemus.cli.tables import say_table
from habemus.fencing.tokens import token_text
from habemus.operations.cluster_view import (
    ClusterView,
    LockView,
    NodeView,
    in_term,
    listed,
    shown_name,
    shown_time,
)

LOCK_HEADS = ("lock", "holder", "node", "token", "held for", "waiting")


@click.command(epilog="Example: habemus status printer --json")
@click.argument("name", required=False)
@cluster_options
@service_option
@json_option
def status(
    name: str | None,
    cluster: str | None,
    service: str,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Show the state of every node and lock of a cluster, or of the lock NAME.

    \b
    Exit codes:
      0    healthy
      1    a node does not answer, cannot reach another node, or has a different configuration;
           or the cluster has no leader
      125  no node answers
    """
    if is_engine_named(cluster):
        return say_engine(name, cluster, service, as_json, credential_files)
    from habemus.operations.node_survey import survey_cluster

    survey = survey_cluster(cluster, **credential_files)
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
            say_elections(seen)
        if name is not None or seen.locks or not any(each.is_of_nodes for each in seen.elections):
            say_locks(seen)
    return Exit.OK if seen.is_well else Exit.FAILED


def say_nodes(seen: ClusterView) -> None:
    election = seen.election
    leads = (
        ""
        if election is None
        else (
            "; no leader"
            if election.leader is None
            else f"; leader is node {election.leader}{in_term(election.term)}"
        )
    )
    up = sum(node.up for node in seen.nodes)
    click.echo(f"cluster {seen.cluster}: {up} of {len(seen.nodes)} nodes up{leads}")
    if seen.members is not None:
        click.echo(str(seen.members))
    for trouble in seen.troubles():
        click.echo(trouble)
    if seen.different_versions():
        click.echo(seen.different_versions())
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
    leader = [_or_dash(node.leader), _or_dash(node.term or None)] if has_leader else []
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


def say_elections(seen: ClusterView) -> None:
    """Print the elections beside that of the table of nodes."""
    for each in seen.elections[1:]:
        leads = (
            "no leader" if each.leader is None else f"node {each.leader} leads{in_term(each.term)}"
        )
        aside = "" if each.agreed else "; not all nodes agree"
        click.echo(f"election {each.service}/{each.name}: {leads}{aside}")


def say_locks(seen: ClusterView) -> None:
    if not seen.locks:
        click.echo("no lock is held or requested")
        return
    say_table(LOCK_HEADS, [lock_row(lock) for lock in seen.locks], left=len(LOCK_HEADS))


def lock_row(lock: LockView) -> list[str]:
    waiting = ", ".join(f"{each.client} (node {each.node})" for each in lock.waiting) or "-"
    held = "-" if lock.held_ms is None else shown_time(lock.held_ms)
    return [
        shown_name(lock),
        lock.holder or "-",
        _or_dash(lock.node),
        "-" if lock.token is None else token_text(lock.token),
        held,
        waiting,
    ]


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
