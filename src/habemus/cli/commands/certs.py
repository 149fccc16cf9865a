"""`habemus certs`: TLS certificates of a cluster on several machines."""

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
    help="Create the files that this cluster.toml names.",
)
@click.option("--cluster", help="Name of the cluster.  [default: habemus]")
@click.option("--nodes", "size", type=click.IntRange(1, 100), help="Number of nodes.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Host name or address of a node; repeat it for each node, in order.",
)
@click.option(
    "--clients",
    metavar="NAME,NAME",
    default="",
    help="Create certificates for these clients as well.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=825,
    show_default=True,
    help="Validity of the certificates.",
)
@click.option(
    "--secret",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Create the cluster secret as well.",
)
@click.option(
    "--renew",
    is_flag=True,
    help="Replace the certificates of nodes and clients; keep the CA.",
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
    """Create a CA and the certificates of a cluster's nodes, in FOLDER or where `--config` says.

    Existing files are checked and kept, so that nodes and clients can be added later.
    """
    if (folder is None) == (file is None):
        raise click.UsageError("give either FOLDER or --config FILE")
    with live():
        from habemus.runtimes.live.certificates import make, make_secret
        from habemus.runtimes.live.config import secret_in

        if file is not None:
            if cluster is not None or size is not None or hosts:
                raise click.UsageError(f"--cluster, --nodes and --host come from {file}; omit them")
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
            secret_in(secret)  # raises if no node would accept it
        issued = make(authority, cluster, subjects, days, renew)
        made_secret = secret is not None and make_secret(secret)
    if as_json:
        say_json(
            {
                "cluster": cluster,
                "certificates": [_shown(each) for each in issued],
                "secret": None if secret is None else {"file": str(secret), "written": made_secret},
                "tls": tls,
            }
        )
        return
    for name, (certificate, key), expires, is_new in issued:
        click.echo(
            f"{'wrote' if is_new else 'kept '}  {certificate} and {key}: {name}, until"
            f" {expires:%Y-%m-%d}"
        )
    if secret is not None:
        click.echo(f"{'wrote' if made_secret else 'kept '}  {secret}: the cluster secret")
    click.echo(
        f"\nA node needs {authority.certificate}, its own two"
        f" files{' and the secret' if secret else ''}.",
        err=True,
    )
    click.echo(
        f"Do not copy {authority.key} to the nodes: its owner can sign a certificate for any node.",
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
    """Return the certificates that a cluster.toml names."""
    from habemus.runtimes.live.certificates import CertificateFiles, node
    from habemus.runtimes.live.config import load

    config = load(file, os.environ, {})
    if config.tls is None:
        raise click.ClickException(f"{file} has no [tls] table, so it needs no certificates")
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
    """Return the certificates that the command line names."""
    from habemus.runtimes.live.certificates import node
    from habemus.runtimes.live.config import CLUSTER, CLUSTER_NAME, is_cluster_name

    cluster = CLUSTER if cluster is None else cluster
    if not is_cluster_name(cluster):
        raise click.ClickException(f"--cluster {cluster}: {CLUSTER_NAME}")
    size = len(hosts) if size is None else size
    if hosts and len(hosts) != size:
        raise click.ClickException(
            f"--nodes is {size}, but --host was given {len(hosts)} times; give it once for each"
            " node, in order"
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
