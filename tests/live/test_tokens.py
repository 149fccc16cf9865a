"""Tokens over the end of the count of a term, by real nodes and clients."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.live.conftest import PATIENCE
from tests.live.nodes import DEFAULT, Nodes

import habemus

LARGEST = 10
"""No room for a third block of four tokens."""
SERVICES = DEFAULT.replace("patience =", f"block = 4, largest_count = {LARGEST}, patience =", 1)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path, SERVICES, head='metrics = "127.0.0.1:0"')
    try:
        yield made
    finally:
        made.close()


def used_up(nodes: Nodes) -> int:
    """Return how many terms the nodes have ended for want of tokens, by their metrics."""
    found = 0.0
    for started in nodes.started.values():
        with urllib.request.urlopen(
            f"http://{started['metrics']}/metrics", timeout=PATIENCE
        ) as page:
            text = page.read().decode()
        found += sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "habemus_used_up_terms_total"
        )
    return int(found)


def test_tokens_grow_over_the_end_of_a_term(nodes: Nodes) -> None:
    assert used_up(nodes) == 0
    tokens: list[int] = []
    with habemus.connect(nodes.socket(1)) as one, habemus.connect(nodes.socket(2)) as two:
        for _ in range(20):
            for cluster in (one, two):
                with cluster.lock("job", timeout=PATIENCE) as lease:
                    assert lease.token is not None
                    tokens.append(lease.token)
    assert tokens == sorted(set(tokens))
    assert max(token & 0xFFFFFFFF for token in tokens) <= LARGEST
    terms = (tokens[-1] >> 32) - (tokens[0] >> 32)
    assert terms >= used_up(nodes) >= 2
