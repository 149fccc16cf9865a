"""The file of a cluster: strict, with the line of what is wrong; the environment before it, and
flags before both.
"""

from pathlib import Path

import pytest

from habemus.runtimes.live.cluster_file import Address, BadConfig
from habemus.runtimes.live.config import Config, ServiceConfig, load

GOOD = """\
cluster = "office"
data = "data"

[nodes]
1 = "127.0.0.1:7401"
2 = "localhost:7402"
3 = "[::1]:7403"

[services.locks]
algorithm = "ricart-agrawala"
options = { notices = true, timeout = "5ms" }
over = "perfect"
"""


def read(
    folder: Path, text: str, environment: dict[str, str] | None = None, **flags: object
) -> Config:
    file = folder / "cluster.toml"
    file.write_text(text)
    return load(file, environment or {}, flags)


def complaint(
    folder: Path, text: str, environment: dict[str, str] | None = None, **flags: object
) -> str:
    with pytest.raises(BadConfig) as refusal:
        read(folder, text, environment, **flags)
    assert "\n" not in str(refusal.value)
    return str(refusal.value).replace(f"{folder}/", "")


def test_a_good_one(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD)
    assert config.cluster == "office"
    assert config.nodes == {
        1: Address("127.0.0.1", 7401),
        2: Address("localhost", 7402),
        3: Address("::1", 7403),
    }
    assert config.services == {
        "locks": ServiceConfig("ricart-agrawala", ("notices=true", "timeout=5ms"), "perfect")
    }
    assert config.data == tmp_path / "data"
    assert str(config.nodes[3]) == "[::1]:7403"


def test_without_services_there_are_locks(tmp_path: Path) -> None:
    config = read(tmp_path, '[nodes]\n1 = "127.0.0.1:7401"\n')
    assert sorted(config.services) == ["locks"]
    assert config.cluster == "habemus"


def test_semaphores_have_sizes(tmp_path: Path) -> None:
    text = '[semaphores]\nprinters = 3\n"seats [A/1]" = 1000\n'
    assert read(tmp_path, GOOD + text).semaphores == {"printers": 3, "seats [A/1]": 1000}
    assert read(tmp_path, GOOD).semaphores == {}
    for wrong, reason in (
        ("printers = 0", "line 14: semaphore 'printers' has size 0; use 1 to 1000"),
        ("printers = 1001", "line 14: semaphore 'printers' has size 1001; use 1 to 1000"),
        ("printers = true", "line 14: semaphores.printers must be a whole number, not True"),
        ("'' = 1", "line 14: '' is not a name for a semaphore; use 1 to 150 printable characters"),
    ):
        assert complaint(tmp_path, f"{GOOD}[semaphores]\n{wrong}\n").endswith(reason)


def test_a_cluster_without_memory_is_asked_for_by_name(tmp_path: Path) -> None:
    forgetful = GOOD.replace('data = "data"\n', "")
    unsaid = read(tmp_path, forgetful)  # a client, or `habemus certs`, need not know
    with pytest.raises(BadConfig, match=r'write data = "FOLDER" .* or memory = "none"'):
        unsaid.settings(1)
    (tmp_path / "elsewhere").mkdir()
    assert (
        read(tmp_path, forgetful, data="elsewhere").settings(1).folder
        == tmp_path / "elsewhere" / "node-1"
    )
    asked = read(tmp_path, 'memory = "none"\n' + forgetful)
    assert (asked.has_memory, asked.settings(1).folder) == (False, None)
    assert 'memory = "none" and a data folder exclude each other' in complaint(
        tmp_path, 'memory = "none"\n' + GOOD
    )
    assert "line 1: memory = 'some' is not valid; write data" in complaint(
        tmp_path, 'memory = "some"\n' + forgetful
    )


KEYS = (
    "cluster",
    "nodes",
    "services",
    "tls",
    "socket",
    "memory",
    "data",
    "secret_file",
    "record",
    "bind",
    "insecure",
    "metrics",
)
SHAPES = (
    *(
        "5",
        "true",
        "1.5",
        "[]",
        "[1]",
        "{}",
        "{ a = 1 }",
        "1979-05-27",
        "nan",
        '"\\u0000"',
        "{ 1 = 5 }",
        "{ 1 = {} }",
        "{ locks = 5 }",
    ),
    *(
        '{ locks = { algorithm = "central", options = 5 } }',
        '{ locks = { algorithm = "x", options = { a = [1979-05-27] } } }',
    ),
)


@pytest.mark.parametrize("key", KEYS)
def test_no_shape_of_a_value_gets_through_or_makes_a_traceback(tmp_path: Path, key: str) -> None:
    nodes = '[nodes]\n1 = "127.0.0.1:7401"\n'
    meant = {"insecure": {"true"}, "services": {"{}"}}  # an empty table offers the usual
    for shape in SHAPES:
        if shape not in meant.get(key, ()):
            complaint(tmp_path, f"{key} = {shape}\n" + ("" if key == "nodes" else nodes))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ('cluster = "office"', 'clutser = "office"'),
            "cluster.toml, line 1: unknown key 'clutser'; did you mean cluster?",
        ),
        (
            ('over = "perfect"', 'ower = "perfect"'),
            "line 12: unknown key 'ower' in [services.locks]; did you mean over?",
        ),
        (
            ('algorithm = "ricart-agrawala"', "algorithm = 7"),
            "line 10: services.locks.algorithm must be a string, not 7",
        ),
        (
            ('over = "perfect"', "shared = 1"),
            "line 12: services.locks.shared must be true or false, not 1",
        ),
        (('algorithm = "ricart-agrawala"\n', ""), "line 9: [services.locks] names no algorithm"),
        (
            ('2 = "localhost:7402"', '101 = "localhost:7402"'),
            "line 6: node 101; the largest number is 100",
        ),
        (
            ('2 = "localhost:7402"', 'two = "localhost:7402"'),
            "line 6: 'two' is not the number of a node",
        ),
        (('2 = "localhost:7402"', '2 = "localhost"'), "line 6: 'localhost' is not an address"),
        (
            ('2 = "localhost:7402"', '2 = "localhost:99999"'),
            "line 6: 'localhost:99999' is not an address",
        ),
        (
            ('2 = "localhost:7402"', '2 = "127.0.0.1:7401"'),
            "line 5: two nodes have the address 127.0.0.1:7401",
        ),
        (
            ('cluster = "office"', 'cluster = "My Office"'),
            "line 1: 'My Office' is not valid; use 1 to 40 lower-case letters",
        ),
        (("[services.locks]", '[services."a/b"]'), "line 9: 'a/b' is not a name for a service"),
        (("[services.locks]", "[services.locks"), "line 9"),
        (('data = "data"', "insecure = 1"), "line 2: insecure must be true or false, not 1"),
        (('data = "data"', 'data = "data"\n[tls]\nca = "x"\n'), "line 3: [tls] has no certificate"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    assert change[0] in GOOD
    assert told in complaint(tmp_path, GOOD.replace(*change))


def test_no_nodes_and_no_file(tmp_path: Path) -> None:
    assert "no nodes" in complaint(tmp_path, "")
    with pytest.raises(BadConfig, match="No such file"):
        load(tmp_path / "absent.toml", {}, {})
    (tmp_path / "noise.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfig, match="is not UTF-8 text"):
        load(tmp_path / "noise.toml", {}, {})


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    environment = {
        "HABEMUS_DATA": "from-environment",
        "HABEMUS_BIND": "127.0.0.1:1",
        "HABEMUS_TOKEN": "not a setting",
        "HABEMUS_RECORD": "r",
    }
    config = read(tmp_path, GOOD, environment, bind="127.0.0.1:2", data=None)
    assert config.data == tmp_path / "from-environment"
    assert config.bind == Address("127.0.0.1", 2)
    assert config.record == tmp_path / "r"
    assert "write true or false" in complaint(tmp_path, GOOD, {"HABEMUS_INSECURE": "perhaps"})


EXPOSED = GOOD.replace("localhost:7402", "10.1.2.3:7402")


def test_other_machines_need_certificates_and_a_secret_or_the_word(tmp_path: Path) -> None:
    assert (
        "10.1.2.3:7402 can be reached by other machines, so the cluster needs [tls] and a"
        " secret_file" in complaint(tmp_path, EXPOSED)
    )
    assert "needs [tls];" in complaint(tmp_path, 'secret_file = "s"\n' + EXPOSED)
    assert "needs [tls] and" in complaint(tmp_path, GOOD, bind="0.0.0.0:7401")
    assert "needs [tls] and" in complaint(tmp_path, GOOD, {"HABEMUS_BIND": "[::]:7401"})
    assert read(tmp_path, "insecure = true\n" + EXPOSED).insecure
    assert read(tmp_path, EXPOSED, {"HABEMUS_INSECURE": "true"}).insecure
    assert read(tmp_path, EXPOSED, insecure=True).insecure
    protected = (
        'secret_file = "s"\n'
        + EXPOSED
        + '[tls]\nca = "ca.pem"\ncertificate = "node-{id}.pem"\nkey = "node-{id}.key"\n'
    )
    assert read(tmp_path, protected).tls is not None


def test_metrics_have_an_address_for_each_node_and_the_same_rule(tmp_path: Path) -> None:
    config = read(tmp_path, 'metrics = "127.0.0.1:940{id}"\n' + GOOD)
    assert config.metrics_of(3) == Address("127.0.0.1", 9403)
    assert read(tmp_path, GOOD).metrics_of(3) is None
    assert read(tmp_path, GOOD, metrics="[::1]:9400").metrics_of(1) == Address("::1", 9400)
    assert "is not an address" in complaint(tmp_path, 'metrics = "127.0.0.1:9999{id}"\n' + GOOD)
    exposed = 'metrics = "0.0.0.0:9400"\n' + GOOD
    assert complaint(tmp_path, exposed).startswith("0.0.0.0:9400 can be reached by other machines")
    assert read(tmp_path, "insecure = true\n" + exposed).metrics_of(1)


def test_settings_of_a_node(tmp_path: Path) -> None:
    config = read(tmp_path, 'secret_file = "secret"\n' + GOOD)
    with pytest.raises(BadConfig, match=r"secret file .*secret: No such file"):
        config.settings(2)
    (tmp_path / "secret").write_text("short\n")
    with pytest.raises(BadConfig, match="has 5 bytes; write at least 16"):
        config.settings(2)
    (tmp_path / "secret").write_text("long enough for a secret\n")
    with pytest.raises(BadConfig, match=r"data folder .* does not exist"):
        config.settings(2)
    (tmp_path / "data").mkdir()
    settings = config.settings(2)
    assert (settings.node, settings.bind, sorted(settings.peers)) == (
        2,
        Address("localhost", 7402),
        [1, 3],
    )
    assert settings.folder == tmp_path / "data" / "node-2"
    assert settings.secret == b"long enough for a secret"
    with pytest.raises(BadConfig, match="has nodes 1, 2, 3"):
        config.settings(4)
