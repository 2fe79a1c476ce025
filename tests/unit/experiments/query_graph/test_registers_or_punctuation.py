import pytest

from headrace.experiments.experiment import Trial
from headrace.experiments.query_graph import registers_or_punctuation as experiment
from headrace.experiments.query_graph.registers_or_punctuation import Size, graph, latency
from headrace.experiments.sample import Sample


@pytest.mark.parametrize("m", [0, 2])
def test_the_graph_has_m_selections_on_every_arc(m: int) -> None:
    unions = {vertex.id: vertex for vertex in graph(m) if vertex.id in experiment.UNIONS}
    selections = [vertex for vertex in graph(m) if "-" in vertex.id]
    assert len(selections) == 6 * m
    assert all(len(union.inputs) == 2 for union in unions.values())


def test_registers_beat_punctuation_and_both_beat_waiting() -> None:
    registers, punctuation = latency("registers", 1, 0.3, 1), latency("punctuation", 1, 0.3, 1)
    assert registers < punctuation < latency("none", 1, 3.0, 1) / 100


def test_what_unions_take_at_no_cost_is_cheaper() -> None:
    assert latency("punctuation", 1, 0.3, 1, who="not unions") < latency("punctuation", 1, 0.3, 1)


def test_a_tiny_run_gives_the_table() -> None:
    outcome = experiment.report(Size(1, 0.06), Trial("quick"))
    assert len(outcome.findings) == 4 + len(experiment.SIMULATOR) + 1
    assert [panel.title for panel in outcome.panels] == [
        "All operators pay for punctuation",
        "Unions take punctuation at no cost",
    ]


def test_growth_that_is_not_there_is_not_confirmed() -> None:
    flat = {
        (who, price, m): Sample((0.99,))
        for who in ("all", "not unions")
        for price in experiment.PRICES
        for m in experiment.LENGTHS
    }
    verdicts = [finding.verdict for finding in experiment._claims(flat)]  # type: ignore[arg-type]
    assert verdicts == ["not confirmed", "not comparable", "not confirmed", "not confirmed"]
