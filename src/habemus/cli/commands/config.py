"""`habemus config`: check the configuration of a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import click

from habemus.cli.output import json_option, say_json
from habemus.core.words import counted


@click.group(epilog="Example: habemus config check cluster.toml")
def config() -> None:
    """Check the configuration of a cluster."""


@config.command(epilog="Example: habemus config check cluster.toml --json")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Print a summary of the cluster in FILE, or the first error in it."""
    from habemus.cli.commands.node import live
    from habemus.deployment.services import all_services, live_options, warnings_of

    with live():
        from habemus.runtimes.live.config import load, secret_in

        found = load(file, os.environ, {})
        found.check_memory()
        services = all_services(found)
        if found.secret_file is not None:
            secret_in(found.secret_file)
    durable = {
        service.name: any(stack.durable for stack in service.stacks.values())
        for service in services
    }
    warnings = {
        name: warnings_of(offer.algorithm, offer.over, durable[name], found.has_memory)
        for name, offer in sorted(found.services.items())
    }
    options = {
        name: live_options(offer.algorithm, offer.options) for name, offer in found.services.items()
    }
    few = len(found.nodes) < 3
    if as_json:
        say_json(
            {
                "cluster": found.cluster,
                "nodes": {str(node): str(address) for node, address in found.nodes.items()},
                "services": {
                    name: {
                        "algorithm": offer.algorithm,
                        "options": list(options[name]),
                        "over": offer.over,
                        "durable": durable[name],
                        "warnings": warnings[name],
                    }
                    for name, offer in sorted(found.services.items())
                },
                "semaphores": dict(found.semaphores),
                "memory": found.has_memory,
                "secret": found.secret_file is not None,
                "tls": found.tls is not None,
                "insecure": found.insecure,
                "survives_a_failure": not few,
            }
        )
        return
    click.echo(
        f"{found.cluster}: {counted(len(found.nodes), 'node')},"
        f" {', '.join(map(str, found.nodes.values()))}"
    )
    if few:
        click.echo(
            f"habemus: a cluster of {len(found.nodes)} tolerates no failure: without one node"
            " there is"
            " no majority; use 3 nodes or more",
            err=True,
        )
    for name, offer in sorted(found.services.items()):
        over = f" over {offer.over} links" if offer.over else ""
        chosen = f" ({', '.join(options[name])})" if options[name] else ""
        click.echo(f"  {name}: {offer.algorithm}{chosen}{over}")
        for warning in warnings[name]:
            click.echo(f"habemus: {name}: {warning}", err=True)
    if found.semaphores:
        sizes = (f"{name} {size}" for name, size in sorted(found.semaphores.items()))
        click.echo(f"  semaphores: {', '.join(sizes)}")
