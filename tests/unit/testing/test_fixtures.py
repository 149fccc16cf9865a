"""The fixtures that users get from the pytest plugin, in a test run of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_users_get_a_cluster_of_real_nodes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import habemus
        import pytest

        def token():
            with habemus.connect() as cluster, cluster.lock("report", timeout=60) as lease:
                return lease.token

        @pytest.mark.habemus(lease="2s")
        def test_nodes_die_and_come_back(habemus_cluster):
            first = token()
            habemus_cluster.kill(2)
            assert habemus_cluster.up == [1, 3]
            assert token() > first
            habemus_cluster.start()
            assert habemus_cluster.up == [1, 2, 3]

        @pytest.mark.habemus(size=1, semaphores={"printers": 2})
        def test_semaphores(habemus_cluster):
            with habemus_cluster.connect(name="me") as cluster:
                with cluster.semaphore("printers", 2), cluster.lock("x"):
                    assert next(iter(cluster.watch("x"))).holder == "me"

        def test_no_server(habemus_local):
            with habemus_local.lock("report") as lease:
                assert lease.token
                with habemus.connect() as other:
                    assert other.try_lock("report") is None
        """
    )
    result = pytester.runpytest_subprocess("--strict-markers", "-W", "error")
    result.assert_outcomes(passed=3)


def test_a_cluster_that_does_not_start_says_why(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.habemus(size=1, lease="nonsense")
        def test_it(habemus_cluster):
            pass
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*node 1 does not start: *nonsense*"])


def test_a_project_keeps_its_own_names(pytester: pytest.Pytester) -> None:
    """Options and fixtures of the plugin have names of their own."""
    pytester.makeconftest(
        """
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--rewrite", action="store_true")
        """
    )
    pytester.makepyfile(
        """
        def test_report(habemus_golden):
            habemus_golden("report.txt", "three lines")
        """
    )
    pytester.runpytest_subprocess("--rewrite").assert_outcomes(failed=1)
    pytester.runpytest_subprocess("--habemus-rewrite").assert_outcomes(passed=1)
    assert (pytester.path / "golden/report.txt").read_text() == "three lines"
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    shown = pytester.runpytest_subprocess("--fixtures").stdout.str()
    _, _, fixtures = shown.partition("fixtures defined from habemus.testing.plugin")
    fixtures, _, _ = fixtures.partition("fixtures defined from")
    names = [line.split()[0] for line in fixtures.splitlines() if " -- " in line]
    assert names == ["habemus_cluster", "habemus_local", "habemus_golden"]
