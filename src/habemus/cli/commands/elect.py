"""`habemus elect`: call an election of the nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from habemus.cli.commands.lock import cluster_options
from habemus.cli.output import Exit, FiniteRange, json_option, say_json
from habemus.deployment.services import SHARED
from habemus.operations.cluster_view import ElectionView, in_term
from habemus.operations.local_cluster import SERVICES

if TYPE_CHECKING:
    from habemus.operations.node_survey import ClusterSurvey

LOOK_SECONDS = 0.1


@click.command(epilog="Example: habemus elect --node 2")
@click.argument("name", default=SHARED)
@click.option(
    "--node",
    type=click.IntRange(1),
    metavar="N",
    help="Node that calls it.  [default: the first one that is up]",
)
@click.option(
    "--timeout",
    type=FiniteRange(0, 3_600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until all nodes that are up name the same leader.",
)
@cluster_options
@click.option("--service", default=SERVICES["election"], show_default=True, help="The service.")
@json_option
def elect(
    name: str,
    node: int | None,
    timeout: float,
    cluster: str | None,
    service: str,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Call an election of the nodes, and print the leader when they agree.

    For clusters with a service of elections, as of `habemus up --algorithm bully`.  NAME defaults
    to the election that `habemus up` calls at its start.  Any other name is a separate election.

    \b
    Exit codes:
      0  a leader      1  no agreement in time      125  no node answers
    """
    from habemus.operations.node_survey import survey_cluster

    survey = survey_cluster(cluster, **credential_files)
    try:
        caller = _caller(survey, node)
        survey.clients[caller].ask("elect", service, name)
        found = _agreed(survey, service, name, timeout)
    finally:
        survey.close()
    if as_json:
        answer = {"leader": found.leader, "term": found.term, "agreed": found.agreed}
        say_json({"service": service, "name": name, "caller": caller, **answer})
    else:
        click.echo(f"{name}: {_words(found, timeout)}")
    return Exit.OK if found.agreed else Exit.FAILED


def _caller(survey: ClusterSurvey, node: int | None) -> int:
    seen = survey.look()
    numbers = [each.node for each in seen.nodes]
    if node is not None and node not in numbers:
        raise click.UsageError(f"no node {node}; nodes are {', '.join(map(str, numbers))}")
    return node or next((each.node for each in seen.nodes if each.up), numbers[0])


def _agreed(survey: ClusterSurvey, service: str, name: str, timeout: float) -> ElectionView:
    """Wait until all nodes that are up name one leader that is up, or for the time."""
    deadline = time.monotonic() + timeout
    while True:
        seen = survey.look()
        up = {each.node for each in seen.nodes if each.up}
        found = next(
            (each for each in seen.elections if (each.service, each.name) == (service, name)),
            ElectionView(service, name, None, 0, agreed=False),
        )
        if (found.agreed and found.leader in up) or time.monotonic() >= deadline:
            return found
        time.sleep(LOOK_SECONDS)


def _words(found: ElectionView, timeout: float) -> str:
    if not found.agreed:
        return f"no leader on which all nodes agree after {timeout:g} s"
    return f"node {found.leader} leads{in_term(found.term)}"
