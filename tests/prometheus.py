"""A cluster with TLS, scraped by a real Prometheus: `make test-prometheus`.

Prometheus gets the files of `deploy/prometheus`, with the addresses of this cluster and a short
interval.  Every target must be up, every query of the alerts and of the dashboard must find the
series that it names, and a node that is killed must raise its alert.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from tests.live.conftest import until
from tests.live.nodes import DEFAULT, Nodes
from tests.live.test_monitoring import TLS
from tests.ports import reserved_ports

import habemus

DEPLOY = Path(__file__).parents[1] / "deploy"
HEAD = 'secret_file = "papers/secret"\nmetrics = "0.0.0.0:0"'


def run(*command: str, folder: Path, given: bytes = b"") -> None:
    print("$", *command, flush=True)
    subprocess.run(command, cwd=folder, input=given, check=True)


def query(port: int, expression: str) -> list[dict[str, Any]]:
    """Return the samples of a query."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def expressions() -> dict[str, str]:
    """Return the queries of the alerts and of the dashboard, by their names."""
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    found = {rule["alert"]: str(rule["expr"]) for rule in rules}
    dashboard = json.loads((DEPLOY / "grafana" / "habemus.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".+")
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def configured(nodes: Nodes) -> None:
    """Write the configuration of Prometheus: that of `deploy`, for this cluster."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    job = config["scrape_configs"][0]
    ports = [each["metrics"].rpartition(":")[2] for each in nodes.started.values()]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    (nodes.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (nodes.folder / "alerts.yml").write_bytes((DEPLOY / "prometheus" / "alerts.yml").read_bytes())


def check(nodes: Nodes, port: int) -> None:
    """Check targets, queries and an alert."""
    until(lambda: len(query(port, 'up{job="habemus"} == 1')) == 3)
    with habemus.connect(nodes.socket(1)) as cluster:
        for _ in range(20):
            with cluster.lock("x", timeout=60):
                pass
    until(lambda: query(port, "rate(habemus_grants_total[1m]) > 0"))
    until(lambda: query(port, "rate(habemus_fsync_seconds_count[1m]) > 0"))
    for name, expression in expressions().items():
        for metric in re.findall(r"\b(?:habemus|process)_\w+", expression):
            assert query(port, metric), f"{name}: there is no {metric}"
        found = query(port, expression)
        print(f"{len(found):3} series  {name}", flush=True)
        assert found or name.startswith("Habemus"), f"{name}: {expression} finds nothing"
    nodes.kill(3)
    until(lambda: query(port, 'ALERTS{alertname="HabemusNodeDown"}'))
    assert not query(port, 'ALERTS{alertname="HabemusNoMajority"}')
    nodes.kill(2)
    until(lambda: query(port, 'ALERTS{alertname="HabemusNoMajority"}'))
    until(lambda: query(port, 'ALERTS{alertname="HabemusNoMajority",alertstate="firing"}'))


def main() -> None:
    rules = DEPLOY / "prometheus"
    run("promtool", "check", "rules", "alerts.yml", folder=rules)
    run("promtool", "test", "rules", "alerts_test.yml", folder=rules)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        command = [sys.executable, "-m", "habemus", "certs", "papers", "--cluster", "office"]
        command += ["--nodes", "3", "--clients", "prometheus", "--secret", "papers/secret"]
        run(*command, *(["--host", "127.0.0.1"] * 3), folder=folder)
        nodes = Nodes(folder, DEFAULT + TLS, head=HEAD)
        [port] = reserved_ports(1)
        try:
            configured(nodes)
            run("promtool", "check", "config", "prometheus.yml", folder=folder)
            papers = ["--cacert", "papers/ca.pem", "--cert", "papers/client-prometheus.pem"]
            papers += ["--key", "papers/client-prometheus.key"]
            url = f"https://127.0.0.1:{nodes.started[1]['metrics'].rpartition(':')[2]}/metrics"
            text = subprocess.run(
                ["curl", "-sS", *papers, url], cwd=folder, check=True, capture_output=True
            )
            run("promtool", "check", "metrics", folder=folder, given=text.stdout)
            server = subprocess.Popen(
                [
                    "prometheus",
                    "--config.file=prometheus.yml",
                    "--storage.tsdb.path=tsdb",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--log.level=error",
                ],
                cwd=folder,
            )
            try:
                until(lambda: answers(port))
                check(nodes, port)
            finally:
                server.kill()
                server.wait()
        finally:
            nodes.close()
    print("Prometheus scrapes, probes and alerts as expected")


def answers(port: int) -> bool:
    try:
        query(port, "1")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
