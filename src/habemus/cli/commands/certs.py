"""`habemus certs`: the certificates that a cluster needs before other machines may reach it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from habemus.cli.commands.node import live
from habemus.cli.output import json_option, say_json

if TYPE_CHECKING:
    from habemus.runtimes.live.certificates import CertificateFiles, IssuedCertificate, Subject


@click.command(
    epilog="Example: habemus certs papers --cluster office --nodes 3 --secret papers/secret"
)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Make what this cluster's file names, where it names it.",
)
@click.option("--cluster", help="The name of the cluster.  [default: habemus]")
@click.option("--nodes", "size", type=click.IntRange(1, 100), help="How many nodes it has.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Where the nodes are found: once for each of them, in their order.",
)
@click.option(
    "--clients",
    metavar="NAME,NAME",
    default="",
    help="Make certificates for these clients as well.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=825,
    show_default=True,
    help="For how long they are good.",
)
@click.option(
    "--secret",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make the cluster's secret as well.",
)
@click.option(
    "--renew",
    is_flag=True,
    help="Replace the certificates of nodes and clients; the authority stays.",
)
@json_option
def certs(
    folder: Path | None,
    file: Path | None,
    cluster: str | None,
    size: int | None,
    hosts: tuple[str, ...],
    clients: str,
    days: int,
    secret: Path | None,
    renew: bool,
    as_json: bool,
) -> None:
    """Make an authority and the certificates of a cluster's nodes, in FOLDER or where `--config`
    says.

    What is there already is checked and kept, so that nodes and clients can be added later.
    """
    if (folder is None) == (file is None):
        raise click.UsageError("say either a FOLDER or --config FILE")
    with live():
        from habemus.runtimes.live.certificates import make, make_secret
        from habemus.runtimes.live.config import secret_in

        if file is not None:
            if cluster is not None or size is not None or hosts:
                raise click.UsageError(f"--cluster, --nodes and --host are what {file} says")
            cluster, authority, subjects = _asked_by(file, secret)
            tls = None
        else:
            assert folder is not None
            cluster, authority, subjects = _asked_in(folder, cluster, size, hosts)
            tls = {
                "ca": f"{folder / 'ca.pem'}",
                "certificate": f"{folder / 'node-{id}.pem'}",
                "key": f"{folder / 'node-{id}.key'}",
            }
        subjects += _clients(cluster, authority.certificate.parent, clients)
        if secret is not None and secret.exists():
            secret_in(secret)  # refuses one that no node would take
        papers = make(authority, cluster, subjects, days, renew)
        made_secret = secret is not None and make_secret(secret)
    if as_json:
        say_json(
            {
                "cluster": cluster,
                "certificates": [_shown(paper) for paper in papers],
                "secret": None if secret is None else {"file": str(secret), "written": made_secret},
                "tls": tls,
            }
        )
        return
    for name, (certificate, key), expires, is_new in papers:
        click.echo(
            f"{'wrote' if is_new else 'kept '}  {certificate} and {key}: {name}, until"
            f" {expires:%Y-%m-%d}"
        )
    if secret is not None:
        click.echo(f"{'wrote' if made_secret else 'kept '}  {secret}: the cluster's secret")
    click.echo(
        f"\nA node needs {authority.certificate}, its own two"
        f" files{' and the secret' if secret else ''}.",
        err=True,
    )
    click.echo(
        f"Keep {authority.key} away from them: whoever has it can make a certificate for anybody.",
        err=True,
    )
    if tls is not None:
        click.echo("For cluster.toml, whose paths are relative to its own folder:\n", err=True)
        if secret is not None:
            click.echo(f"secret_file = {json.dumps(str(secret))}    # before the first [table]")
        click.echo(
            "\n".join(["[tls]", *(f"{key} = {json.dumps(value)}" for key, value in tls.items())])
        )


def _asked_by(file: Path, secret: Path | None) -> tuple[str, CertificateFiles, list[Subject]]:
    """What the configuration of a cluster asks for."""
    from habemus.runtimes.live.certificates import CertificateFiles, node
    from habemus.runtimes.live.config import load

    config = load(file, os.environ, {})
    if config.tls is None:
        raise click.ClickException(f"{file} has no [tls], and so it needs no certificates")
    if secret is not None and (
        config.secret_file is None or secret.absolute() != config.secret_file.absolute()
    ):
        raise click.ClickException(
            f"--secret {secret} is not the secret_file of {file}, which is"
            f" {config.secret_file or 'not given'}"
        )
    ca = config.tls.ca
    subjects = [
        node(
            config.cluster,
            number,
            CertificateFiles(*config.certificate_files(config.tls, number)),
            [address.host],
        )
        for number, address in config.nodes.items()
    ]
    return config.cluster, CertificateFiles(ca, ca.with_suffix(".key")), subjects


def _asked_in(
    folder: Path, cluster: str | None, size: int | None, hosts: tuple[str, ...]
) -> tuple[str, CertificateFiles, list[Subject]]:
    """What the command line asks for."""
    from habemus.runtimes.live.certificates import node
    from habemus.runtimes.live.config import CLUSTER, CLUSTER_NAME, is_cluster_name

    cluster = CLUSTER if cluster is None else cluster
    if not is_cluster_name(cluster):
        raise click.ClickException(f"--cluster {cluster}: {CLUSTER_NAME}")
    size = len(hosts) if size is None else size
    if hosts and len(hosts) != size:
        raise click.ClickException(
            f"there are {size} nodes and {len(hosts)} times --host; say it once for each node, in"
            " their order"
        )
    subjects = [
        node(cluster, number, _files_in(folder, f"node-{number}"), hosts[number - 1 : number])
        for number in range(1, size + 1)
    ]
    return cluster, _files_in(folder, "ca"), subjects


def _clients(cluster: str, folder: Path, clients: str) -> list[Subject]:
    from habemus.runtimes.live.certificates import client

    names = [name.strip() for name in clients.split(",") if name.strip()]
    return [
        client(cluster, name, _files_in(folder, f"client-{name}")) for name in dict.fromkeys(names)
    ]


def _files_in(folder: Path, name: str) -> CertificateFiles:
    from habemus.runtimes.live.certificates import CertificateFiles

    return CertificateFiles(folder / f"{name}.pem", folder / f"{name}.key")


def _shown(paper: IssuedCertificate) -> dict[str, object]:
    return {
        "name": paper.name,
        "certificate": str(paper.files.certificate),
        "key": str(paper.files.key),
        "expires": paper.expires.isoformat(),
        "written": paper.is_new,
    }
