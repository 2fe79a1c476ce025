import pytest

from headrace.experiments.experiment import Trial
from headrace.experiments.query_graph import bursts
from headrace.experiments.query_graph.bursts import SIX, closed_form, emissions, mean_emission


@pytest.mark.parametrize("strategy", ["dfs", "bfs", "rr", "dfs-2", "dfs-5", "dfs-10"])
@pytest.mark.parametrize("n", [10, 20, 50])
def test_means_are_those_of_the_closed_forms(strategy: str, n: int) -> None:
    assert mean_emission(strategy, n) == closed_form(strategy, n)


def test_the_closed_forms_are_those_of_the_paper() -> None:
    for n in (1, 2, 10, 100):
        assert closed_form("dfs", n) == n + 1
        assert closed_form("bfs", n) == closed_form("rr", n) == 1.5 * n + 0.5
    assert (closed_form("dfs", 100, 0.95), closed_form("bfs", 100, 0.95)) == (98.525, 148.025)


def test_batches_of_one_and_of_all_are_depth_and_breadth_first() -> None:
    assert emissions("dfs-1", 6) == emissions("dfs", 6)
    assert emissions("dfs-6", 6) == emissions("bfs", 6)


@pytest.mark.parametrize("strategy", SIX)
def test_a_burst_of_six_leaves_at_the_published_times(strategy: str) -> None:
    assert tuple(emissions(strategy, 6)) == SIX[strategy]


def test_a_tiny_run_gives_the_table() -> None:
    seen: list[str] = []
    outcome = bursts.report(bursts.Size(1, 0.1, 1.5, 2), Trial("quick", 3, lambda what, done, of: seen.append(what)))
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    assert verdicts["closed form: bfs, n = 100"] == "confirmed"
    assert verdicts["growth of BFS to that of DFS"] == "confirmed"
    assert {panel.title for panel in outcome.panels} == {
        "Latent timestamps, two operators",
        "Union with bounds on demand",
        "A burst of six",
    }
    assert len(seen) == 12


def test_a_wrong_order_of_execution_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = bursts._closed({("dfs", 10): mean_emission("bfs", 10)})
    assert [finding.verdict for finding in closed] == ["not confirmed"]
    monkeypatch.setattr(bursts, "emissions", lambda strategy, n: [n + 1] * n)
    verdicts = {finding.what: finding.verdict for finding in bursts._emissions()}
    assert set(verdicts.values()) == {"not confirmed"}
