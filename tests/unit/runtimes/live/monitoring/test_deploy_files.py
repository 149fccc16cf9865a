"""The files in `deploy` fit the program: addresses, ports, paths, options and names of metrics."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner
from tests import virtual
from tests.unit.runtimes.live.conftest import Cluster

from habemus.cli.commands.node import node as node_command
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.config import load
from habemus.runtimes.live.monitoring.meter import LOSSES, REFUSALS
from habemus.runtimes.live.monitoring.metrics import NodeMetrics

DEPLOY = Path(__file__).parents[5] / "deploy"


def documents(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8")))


def exported(folder: Path) -> set[str]:
    """Return the names of all series of a node with stable memory."""
    names: set[str] = set()

    async def run() -> None:
        cluster = Cluster(
            {"locks": "elected-coordinator-leased"}, 1, folder, metrics=Address("127.0.0.1", 0)
        )
        node = await cluster.start(1)
        assert node._monitor.meter is not None
        text = (await NodeMetrics(node, node._monitor.meter).text()).decode()
        names.update(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
        names.update(re.findall(r"^([a-z_]+)[ {]", text, re.MULTILINE))
        await cluster.close()

    virtual.run(run())
    return names | {"habemus_certificate_expiry_timestamp_seconds"}  # only with TLS


def test_alerts_and_dashboard_use_metrics_that_exist(tmp_path: Path) -> None:
    names = exported(tmp_path)
    rules = documents("prometheus/alerts.yml")[0]["groups"][0]["rules"]
    dashboard = json.loads((DEPLOY / "grafana" / "habemus.json").read_text(encoding="utf-8"))
    texts = [rule["expr"] for rule in rules]
    texts += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for text in texts for name in re.findall(r"\b(?:habemus|process)_\w+", text)}
    assert used - names == set()
    assert len(used) > 20
    causes = re.findall(r'cause!?="(\w+)"', " ".join(texts))
    assert set(causes) <= {*LOSSES} and "forbidden" in REFUSALS


def check_cluster(text: str, folder: Path, size: int) -> dict[str, Any]:
    """Check a cluster.toml, and return it."""
    file = folder / "cluster.toml"
    file.write_text(text)
    config = load(file, {}, {})
    assert len(config.nodes) == size and config.tls is not None and config.secret_file is not None
    assert {address.port for address in config.nodes.values()} == {7400}
    assert config.metrics_of(1) == Address("0.0.0.0", 9400)
    return tomllib.loads(text)


def test_kubernetes(tmp_path: Path) -> None:
    found = {each["kind"]: each for each in documents("kubernetes/habemus.yaml")}
    replicas = found["StatefulSet"]["spec"]["replicas"]
    cluster = check_cluster(found["ConfigMap"]["data"]["cluster.toml"], tmp_path, replicas)
    name, service = found["StatefulSet"]["metadata"]["name"], found["Service"]["metadata"]["name"]
    assert found["StatefulSet"]["spec"]["serviceName"] == service
    for number in range(1, replicas + 1):  # node k is pod k-1
        assert cluster["nodes"][str(number)] == f"{name}-{number - 1}.{service}:7400"
    template = found["StatefulSet"]["spec"]["template"]
    assert template["metadata"]["labels"] == found["Service"]["spec"]["selector"]
    [container] = template["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"habemus": 7400, "metrics": 9400}
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = container[probe]["httpGet"]
        assert (asked["path"], asked["port"], asked["scheme"]) == (path, "metrics", "HTTPS")
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert {cluster["data"], "/etc/habemus/cluster.toml", "/etc/habemus/papers"} == mounted
    volumes = {each["name"] for each in template["spec"]["volumes"]}
    claims = {
        each["metadata"]["name"] for each in found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    assert {each["name"] for each in container["volumeMounts"]} == volumes | claims
    check_options(container["args"][0])


def test_compose(tmp_path: Path) -> None:
    [compose] = documents("compose/compose.yaml")
    text = (DEPLOY / "compose" / "cluster.toml").read_text(encoding="utf-8")
    cluster = check_cluster(text, tmp_path, len(compose["services"]))
    for number, (name, service) in enumerate(compose["services"].items(), 1):
        assert cluster["nodes"][str(number)] == f"{name}:7400"
        assert service["environment"]["HABEMUS_NODE"] == str(number)
        assert service["volumes"][-1] == f"data-{number}:{cluster['data']}"
        assert f"data-{number}" in compose["volumes"]
    assert (DEPLOY / "compose" / compose["services"]["node-1"]["build"]["context"]).resolve() == (
        DEPLOY.parent
    )


def test_unit_and_image_use_options_and_variables_that_exist() -> None:
    unit = (DEPLOY / "systemd" / "habemus@.service").read_text(encoding="utf-8")
    check_options(re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0])
    assert "Type=notify\n" in unit and "WatchdogSec=" in unit
    image = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    help_text = CliRunner().invoke(node_command, ["--help"]).output
    variables = {each.envvar for each in node_command.params if each.envvar}
    assert set(re.findall(r"\b(HABEMUS_[A-Z_]+)=", image)) <= variables
    assert "--metrics" in help_text


def check_options(command: str) -> None:
    """Check that `habemus node` has the options of a command line."""
    known = {name for each in node_command.params for name in each.opts}
    used = set(re.findall(r"(?<=\s)--[a-z-]+", command))
    assert used and used <= known, used - known
