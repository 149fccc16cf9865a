"""`habemus certs`: what it makes is good between nodes, what is there is kept, and no certificate
is good for two.
"""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests import virtual

from habemus.cli import main
from habemus.problems.mutex import Granted
from habemus.runtimes.live import certificates
from habemus.runtimes.live.certificates import (
    BadCertificates,
    CertificateFiles,
    client,
    make,
    make_secret,
    node,
)
from habemus.runtimes.live.config import load
from habemus.runtimes.live.peers.tls import TlsContexts, contexts

CLUSTER_FILE = """\
cluster = "office"
memory = "none"
secret_file = "papers/secret"

[nodes]
1 = "10.0.0.1:7400"
2 = "printer.example:7400"
3 = "[fd00::1]:7400"

[tls]
ca = "papers/authority.crt"
certificate = "papers/{id}/node.pem"
key = "papers/{id}/node.key"
"""


def files(folder: Path, name: str) -> CertificateFiles:
    return CertificateFiles(folder / f"{name}.pem", folder / f"{name}.key")


def names_in(path: Path) -> set[str]:
    found = (
        x509.load_pem_x509_certificate(path.read_bytes())
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    return {
        *found.get_values_for_type(x509.DNSName),
        *map(str, found.get_values_for_type(x509.IPAddress)),
    }


def habemus(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out, said.err


def handshake(answering: ssl.SSLContext, dialling: ssl.SSLContext, name: str) -> str:
    """The name at the dialling end, as the answering one sees it, after a real handshake; or an
    SSLError of either side.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = answering.wrap_bio(to_server, to_client, server_side=True)
    client = dialling.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [client, server]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    certificate = server.getpeercert()
    assert certificate is not None
    return str(certificate["subjectAltName"][0][1])


# What is made.


def test_nodes_with_these_papers_have_a_lock(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to a grant: three nodes with the papers that the file names."""
    (tmp_path / "papers").mkdir()
    assert (
        habemus(capsys, "certs", tmp_path / "papers", "--cluster", "office", "--nodes", 3)[0] == 0
    )

    def tls(number: int) -> TlsContexts:
        return contexts(
            tmp_path / "papers" / "ca.pem", *files(tmp_path / "papers", f"node-{number}")
        )

    async def run() -> None:
        async with cluster(
            {"locks": "ricart-agrawala"}, only=(), secret=b"a secret of the cluster"
        ) as made:
            for number in (1, 2, 3):
                await made.start(number, tls=tls(number))
            client = made.client(3, "locks", "printer")
            client.ask("acquire")
            assert isinstance(await client.hear(), Granted)

    virtual.run(run())


def test_a_handshake_needs_the_right_authority_the_right_name_and_the_right_use(
    tmp_path: Path,
) -> None:
    for folder in ("ours", "theirs"):
        base = tmp_path / folder
        subjects = [node("office", number, files(base, f"node-{number}")) for number in (1, 2)]
        make(
            files(base, "ca"),
            "office",
            [*subjects, client("office", "alice", files(base, "alice"))],
        )

    def tls(authority: str, folder: str, name: str) -> TlsContexts:
        made = contexts(tmp_path / authority / "ca.pem", *files(tmp_path / folder, name))
        for each in (made.answering, made.dialling):
            each.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
        return made

    one = tls("ours", "ours", "node-1")
    assert (
        handshake(one.answering, tls("ours", "ours", "node-2").dialling, "node-1.office")
        == "node-2.office"
    )
    assert (
        handshake(one.answering, tls("ours", "ours", "alice").dialling, "node-1.office")
        == "client-alice.office"
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(one.answering, tls("ours", "ours", "node-2").dialling, "node-3.office")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(one.answering, tls("theirs", "theirs", "node-2").dialling, "node-1.office")
    with pytest.raises(ssl.SSLError):
        handshake(one.answering, tls("ours", "theirs", "node-2").dialling, "node-1.office")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(tls("ours", "ours", "alice").answering, one.dialling, "client-alice.office")


def test_what_a_cluster_file_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER_FILE)
    papers = tmp_path / "papers"
    code, said, _ = habemus(
        capsys,
        "certs",
        "--config",
        file,
        "--secret",
        papers / "secret",
        "--clients",
        "alice,bob",
        "--json",
    )
    told = json.loads(said)
    assert (
        code == 0
        and told["cluster"] == "office"
        and told["tls"] is None
        and told["secret"]["written"]
    )
    wanted = [
        "the authority of office",
        "node-1.office",
        "node-2.office",
        "node-3.office",
        "client-alice.office",
        "client-bob.office",
    ]
    assert [each["name"] for each in told["certificates"]] == wanted and all(
        each["written"] for each in told["certificates"]
    )
    assert names_in(papers / "1" / "node.pem") == {"node-1.office", "10.0.0.1"}
    assert names_in(papers / "2" / "node.pem") == {"node-2.office", "printer.example"}
    assert names_in(papers / "3" / "node.pem") == {"node-3.office", "fd00::1"}
    assert names_in(papers / "client-bob.pem") == {"client-bob.office"}
    for number in (1, 2, 3):
        settings = load(file, {}, {}).settings(number)  # a node would start with them
        assert (
            settings.tls is not None
            and settings.secret is not None
            and len(bytes.fromhex(settings.secret.decode())) == 32
        )
    secrets = [papers / "secret", papers / "authority.key", *papers.rglob("*.key")]
    assert {stat.S_IMODE(each.stat().st_mode) for each in secrets} == {0o600} and len(secrets) == 8


def test_the_lines_that_it_prints_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hosts = [word for host in ("10.0.0.1", "10.0.0.2") for word in ("--host", host)]
    code, said, beside = habemus(capsys, "certs", "papers", *hosts, "--secret", "papers/secret")
    assert (
        code == 0
        and "wrote  papers/node-2.pem and papers/node-2.key: node-2.habemus, until" in said
    )
    assert "Do not copy papers/ca.key to the nodes" in beside
    lines = said[said.index("secret_file") :].splitlines()
    nodes = ["[nodes]", '1 = "10.0.0.1:7400"', '2 = "10.0.0.2:7400"']
    Path("cluster.toml").write_text("\n".join(['memory = "none"', lines[0], *nodes, *lines[1:]]))
    assert load(Path("cluster.toml"), {}, {}).settings(2).tls is not None
    assert names_in(Path("papers/node-2.pem")) == {"node-2.habemus", "10.0.0.2"}


def test_for_how_long(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    short, long = files(tmp_path, "node-1"), files(tmp_path, "node-2")
    authority, first = make(files(tmp_path, "ca"), "office", [node("office", 1, short)], days=30)
    _, second = make(files(tmp_path, "ca"), "office", [node("office", 2, long)], days=9999)
    assert timedelta(days=29) < first.expires - now <= timedelta(days=30, minutes=5)
    assert second.expires == authority.expires  # no longer than the one that vouches for it


# What is there already.


def test_what_is_there_is_kept_and_nodes_are_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    arguments = ("certs", tmp_path, "--cluster", "office", "--secret", secret, "--nodes")
    habemus(capsys, *arguments, 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = habemus(capsys, *arguments, 3)[1]
    assert said.count("kept ") == 4 and said.count("wrote") == 1
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert (
        after.keys() - before.keys() == {"node-3.pem", "node-3.key"}
        and before.items() <= after.items()
    )


def test_renew_replaces_nodes_and_clients_but_not_the_authority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("certs", tmp_path, "--cluster", "office", "--nodes", 1, "--clients", "alice")
    habemus(capsys, *arguments)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "node-1.key").unlink()  # one of two is lost: nothing is done without being told to
    assert habemus(capsys, *arguments)[0] == 2
    assert habemus(capsys, *arguments, "--renew")[0] == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in before if after[name] == before[name]} == {
        "ca.pem",
        "ca.key",
    } and after.keys() == before.keys()
    assert stat.S_IMODE((tmp_path / "node-1.key").stat().st_mode) == 0o600
    contexts(tmp_path / "ca.pem", *files(tmp_path, "node-1"))


def replaced_by_another(folder: Path) -> None:
    make(
        files(folder / "other", "ca"),
        "office",
        [node("office", 1, files(folder / "other", "node-1"))],
    )
    for path in files(folder / "other", "node-1"):
        path.replace(folder / path.name)


def made_for_another(folder: Path) -> None:
    (folder / "node-1.pem").unlink()
    (folder / "node-1.key").unlink()
    make(files(folder, "ca"), "office", [node("office", 7, files(folder, "node-1"))])


def expired(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "timedelta", lambda days: timedelta(minutes=-days))
        make(
            files(folder, "ca"),
            "office",
            [node("office", 1, files(folder, "node-1"))],
            renew=True,
            days=5,
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replaced_by_another, r"node-1\.pem was not signed by .*ca\.pem"),
        (made_for_another, r"node-1\.pem is for node-7\.office, not for node-1\.office"),
        (expired, r"node-1\.pem expired on "),
        (
            lambda folder: (folder / "node-1.pem").write_text("rubbish"),
            r"node-1\.pem is not a certificate",
        ),
        (
            lambda folder: (folder / "node-1.key").write_text("rubbish"),
            r"node-1\.key is not a private key",
        ),
        (
            lambda folder: (folder / "node-1.key").write_bytes((folder / "ca.key").read_bytes()),
            r"node-1\.key is not the key of",
        ),
        (
            lambda folder: (folder / "node-1.key").unlink(),
            r"node-1\.pem exists but .*node-1\.key does not",
        ),
        (lambda folder: (folder / "ca.key").unlink(), r"ca\.pem exists but .*ca\.key does not"),
        (
            lambda folder: (folder / "ca.key").write_bytes((folder / "node-1.key").read_bytes()),
            r"ca\.key is not the key of .*ca\.pem",
        ),
        (
            lambda folder: [
                (folder / f"node-1{end}").replace(folder / f"ca{end}") for end in (".pem", ".key")
            ],
            "not the certificate of an",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_there_and_not_good_is_named_and_nothing_is_written(
    tmp_path: Path, change: Any, said: str
) -> None:
    subjects = [node("office", number, files(tmp_path, f"node-{number}")) for number in (1, 2)]
    make(files(tmp_path, "ca"), "office", subjects[:1])
    change(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(BadCertificates, match=said):
        make(files(tmp_path, "ca"), "office", subjects)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_secret_is_never_replaced(tmp_path: Path) -> None:
    assert make_secret(tmp_path / "secret")
    before = (tmp_path / "secret").read_bytes()
    assert not make_secret(tmp_path / "secret") and (tmp_path / "secret").read_bytes() == before


# Names.


@pytest.mark.parametrize(
    "host",
    [
        "node-2.office",
        "NODE-2.Office.",
        "client-alice.office",
        "*.office",
        "a b",
        "",
        "x" * 64,
        "a..b",
    ],
)
def test_a_host_is_not_a_way_to_somebody_elses_name(tmp_path: Path, host: str) -> None:
    with pytest.raises(BadCertificates):
        node("office", 1, files(tmp_path, "node-1"), [host])


def test_a_node_may_be_found_under_its_own_name(tmp_path: Path) -> None:
    make(
        files(tmp_path, "ca"),
        "office",
        [
            node(
                "office", 1, files(tmp_path, "node-1"), ["node-1.office", "::1", "node-2.elsewhere"]
            )
        ],
    )
    assert names_in(tmp_path / "node-1.pem") == {"node-1.office", "::1", "node-2.elsewhere"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either FOLDER or --config FILE"),
        (["papers", "--config", "cluster.toml"], "give either FOLDER or --config FILE"),
        (["--config", "cluster.toml", "--nodes", "3"], "come from cluster.toml"),
        (["--config", "absent.toml"], "absent.toml: No such file"),
        (
            ["--config", "cluster.toml", "--secret", "elsewhere"],
            "is not the secret_file of cluster.toml",
        ),
        (["--config", "bare.toml"], "bare.toml has no [tls]"),
        (["--config", "shared.toml"], "node.pem is used for two certificates or keys"),
        (["papers", "--cluster", "No Name"], "use 1 to 40 lower-case letters"),
        (
            ["papers", "--nodes", "3", "--host", "10.0.0.1"],
            "--nodes is 3, but --host was given 1 times",
        ),
        (["papers", "--nodes", "1", "--clients", "a,../b"], "is not a name for a client"),
        (["papers", "--nodes", "1", "--secret", "short"], "write at least 16"),
        (["papers", "--nodes", "0"], "--nodes"),
        (["papers", "--days", "0"], "--days"),
        (["bare.toml", "--nodes", "1"], "bare.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_use_is_one_line_and_writes_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(CLUSTER_FILE)
    Path("bare.toml").write_text('[nodes]\n1 = "127.0.0.1:7400"\n')
    Path("shared.toml").write_text(CLUSTER_FILE.replace("papers/{id}/node.pem", "node.pem"))
    Path("short").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = habemus(capsys, "certs", *arguments)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_without_the_package_that_makes_them(tmp_path: Path) -> None:
    without = (
        "import sys; sys.modules['cryptography'] = None; from habemus.cli import main;"
        " main(['certs', 'papers', '--nodes', '1'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", without], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "habemus: package 'cryptography' is missing: pip install '.[certs]' in your clone\n",
    )
