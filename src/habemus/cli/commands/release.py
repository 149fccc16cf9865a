"""`habemus release`: takes a lock from whoever holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from habemus.cli.commands.lock import cluster_options, service_option
from habemus.cli.output import Exit, json_option, say_json
from habemus.operations.cluster_view import ClusterView, LockView
from habemus.supervise.locked_command import UNREACHABLE

if TYPE_CHECKING:
    from habemus.operations.node_survey import ClusterSurvey

WARNING = (
    "a lock that is taken from its holder may be granted to another while the holder still works; "
    "if you know that it does not, or that it checks its token, say --force"
)


@click.command(epilog="Example: habemus release nightly-report --force")
@click.argument("name")
@click.option("--force", is_flag=True, help="I know what I am doing.")
@click.option(
    "--all-nodes",
    is_flag=True,
    help=(
        "Tell every node, even if none has a holder: whoever was it is gone, and its node with it."
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
    **papers: str | None,
) -> int:
    """Take the lock NAME from whoever holds it.

    The holder is told that it has lost the lock; a command of `habemus lock` is ended at once.  If
    the holder's node is gone, and the algorithm has no leases, everybody waits for that node:
    `--all-nodes` makes you vouch for that the holder is gone, too.  Only elected-coordinator and
    its variants can act on that.

    \b
    Exit codes:
      0  it was taken from somebody      1  nobody held it      125  no node answers
    """
    if not force:
        raise click.UsageError(WARNING)
    from habemus.client.errors import Unreachable
    from habemus.operations.node_survey import survey_cluster

    try:
        survey = survey_cluster(cluster, **papers)
    except Unreachable as reason:
        click.echo(f"habemus: {reason}", err=True)
        return UNREACHABLE
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
            click.echo(f"{name} was taken from {each['client']} at node {each['node']}")
        if reclaimed:
            click.echo(f"whoever held {name} is taken for gone")
        elif not lost:
            click.echo(f"nobody holds {name}{_hint(seen, service, cannot=all_nodes)}")
    return Exit.AS_WANTED if lost or reclaimed else Exit.NOT_AS_WANTED


def _forced(
    survey: ClusterSurvey, nodes: list[int], service: str, name: str
) -> dict[int, dict[str, Any]]:
    from habemus.client.errors import HabemusError

    answers = {}
    for node in nodes:
        try:
            answers[node] = survey.onlookers[node].ask("force", service, name)
        except HabemusError as reason:
            click.echo(f"habemus: node {node}: {reason}", err=True)
    return answers


def _down(seen: ClusterView) -> list[int]:
    return [node.node for node in seen.nodes if not node.up]


def _hint(seen: ClusterView, service: str, *, cannot: bool) -> str:
    """cannot: every node was asked, and the algorithm has no way to end a stay at a node that is
    gone.
    """
    down = _down(seen)
    if not down:
        return ""
    away = f" as far as can be seen; what does not answer: node {', node '.join(map(str, down))}; "
    if cannot:
        return (
            f"{away}the algorithm of {service} cannot take a lock from a node that is gone: start"
            " that node"
        )
    return f"{away}see --all-nodes"
