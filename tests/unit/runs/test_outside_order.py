"""ME3 where applications also tell each other of their requests."""

import json
import shlex

import pytest

import habemus
from habemus.cli import main
from habemus.core.properties import Verdict
from habemus.runs.setup import BadSetup
from habemus.schedules.counterexamples import again


@pytest.mark.parametrize(("name", "steps"), [("central", 4), ("token-ring", 3)])
@pytest.mark.parametrize("n", [2, 3])
def test_arrival_and_the_ring_do_not_keep_the_order_of_asking(
    name: str, n: int, steps: int
) -> None:
    result = habemus.check(name, n, order="outside")
    assert result.violated == ["ME3"] and result.plain["steps"]["ME3"] == steps
    assert result.trace is not None
    repeated = again(result.trace)
    assert repeated.same and repeated.simulated == "ME3 is violated too"
    assert habemus.check(name, n, order=True).properties["ME3"] is Verdict.HOLDS


@pytest.mark.parametrize("search", ["breadth", "numpy", "symbolic"])
def test_every_search_finds_it(search: str) -> None:
    result = habemus.check("central", 3, order="outside", every=True, search=search)
    assert result.violated == ["ME3"] and result.exhaustive


def test_what_is_told_is_not_in_the_states() -> None:
    """The observer alone knows it, so that the number of entries is not bounded."""
    assert habemus.check("central", 2, order="outside", entries=None, every=True).exhaustive
    with pytest.raises(BadSetup, match="up to 8 entries"):
        habemus.check("central", 2, order=True, entries=None)


@pytest.mark.parametrize(("second", "verdict"), [("2@1ms", "holds"), ("2@2ms", "violated")])
def test_requests_at_the_same_moment_have_no_order(second: str, verdict: str) -> None:
    result = habemus.simulate(
        "central", 2, asks=["1@1ms", second], faults=["slow 1>0@0=9ms"], order="outside"
    )
    assert result.properties["ME3"].value == verdict
    plain = habemus.simulate("central", 2, asks=["1@1ms", second], faults=["slow 1>0@0=9ms"])
    assert plain.properties["ME3"] is Verdict.HOLDS and plain.digest == result.digest


def test_unknown_orders_are_refused() -> None:
    for call in (habemus.check, habemus.simulate):
        with pytest.raises(BadSetup, match="there is no order inside; there are messages and"):
            call("central", 2, order="inside")
    with pytest.raises(BadSetup, match="about the order of requests for a lock"):
        habemus.check("bully", 2, order="outside")


@pytest.mark.parametrize("order", ["--order", "--order outside"])
def test_the_command_can_be_pasted(order: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = habemus.check("central", 2, order="outside" if "outside" in order else True)
    assert order in result.command
    with pytest.raises(SystemExit):
        main([*shlex.split(result.command)[1:], "--json"])
    assert json.loads(capsys.readouterr().out)["check"] == result.plain["check"]
