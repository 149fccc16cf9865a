"""`habemus release`: revoke a lock from its holder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from habemus.cli.commands.lock import cluster_options, service_option
from habemus.cli.engine_commands import is_engine_named, release_at_engine
from habemus.cli.output import Exit, json_option, say_json
from habemus.operations.cluster_view import ClusterView, LockView

if TYPE_CHECKING:
    from habemus.operations.node_survey import ClusterSurvey

WARNING = (
    "a revoked lock can be granted to another client while the old holder is still working; if the"
    " holder is dead, or the resource checks fencing tokens, repeat the command with --force"
)


@click.command(epilog="Example: habemus release nightly-report --force")
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Confirm: the holder is dead, or the resource checks fencing tokens.",
)
@click.option(
    "--all-nodes",
    is_flag=True,
    help=(
        "Ask every node, even if no node reports a holder: the holder is dead, and so is its node."
    ),
)
@cluster_options
@service_option
@json_option
def release(
    name: str,
    force: bool,
    all_nodes: bool,
    cluster: str | None,
    service: str,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Revoke the lock NAME from its holder.

    The holder is notified that it has lost the lock; a command of `habemus lock` is terminated at
    once.  If the node of the holder is down and the algorithm has no leases, all clients wait for
    that node.  Then use `--all-nodes`, if you know that the holder is dead as well.  Only
    elected-coordinator and its variants support that.

    \b
    Exit codes:
      0  revoked      1  no client held it      125  no node answers
    """
    if not force:
        raise click.UsageError(WARNING)
    if is_engine_named(cluster):
        return release_at_engine(name, cluster, service, as_json, credential_files)
    from habemus.operations.node_survey import survey_cluster

    survey = survey_cluster(cluster, **credential_files)
    seen = survey.look()
    lock = next(
        (each for each in seen.locks if (each.service, each.name) == (service, name)),
        LockView(service, name),
    )
    asked = [node.node for node in seen.nodes if node.up and (all_nodes or node.node == lock.node)]
    answers = _forced(survey, asked, service, name)
    survey.close()
    lost = [
        {"client": answer["taken"], "node": node}
        for node, answer in answers.items()
        if answer["taken"] is not None
    ]
    reclaimed = not lost and any(answer["reclaims"] for answer in answers.values())
    if as_json:
        say_json(
            {
                "name": name,
                "lost": lost,
                "token": lock.token,
                "reclaimed": reclaimed,
                "unreachable": _down(seen),
            }
        )
    else:
        for each in lost:
            click.echo(f"{name}: revoked from {each['client']} at node {each['node']}")
        if reclaimed:
            click.echo(f"{name}: revoked from a holder whose node is down")
        elif not lost:
            click.echo(f"{name}: not held{_hint(seen, service, cannot=all_nodes)}")
    return Exit.OK if lost or reclaimed else Exit.FAILED


def _forced(
    survey: ClusterSurvey, nodes: list[int], service: str, name: str
) -> dict[int, dict[str, Any]]:
    from habemus.client.errors import HabemusError

    answers = {}
    for node in nodes:
        try:
            answers[node] = survey.clients[node].ask("force", service, name)
        except HabemusError as reason:
            click.echo(f"habemus: node {node}: {reason}", err=True)
    return answers


def _down(seen: ClusterView) -> list[int]:
    return [node.node for node in seen.nodes if not node.up]


def _hint(seen: ClusterView, service: str, *, cannot: bool) -> str:
    """Explain which nodes did not answer and what to do.

    cannot: every node was asked, and the algorithm cannot revoke a lock at a node that is down.
    """
    down = _down(seen)
    if not down:
        return ""
    away = f" at the nodes that answer; no answer from node {', node '.join(map(str, down))}; "
    if cannot:
        return (
            f"{away}the algorithm of {service} cannot revoke a lock at a node that is down: start"
            " that node"
        )
    return f"{away}if the holder is dead, use --all-nodes"
