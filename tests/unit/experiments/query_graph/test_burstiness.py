import pytest

from headrace.experiments.experiment import Trial
from headrace.experiments.query_graph import burstiness
from headrace.experiments.query_graph.burstiness import SLIDES, Size, floor, times
from headrace.experiments.sample import Sample
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Rows
from headrace.operators.specs import RowsAggregate


@pytest.mark.parametrize("on_demand", [False, True])
def test_selecting_every_kth_tuple_is_what_an_aggregate_over_rows_gives(on_demand: bool) -> None:
    count = RowsAggregate(Rows(10, 10), (), (AggregateCall("x", "count", None, Type.BIGINT),))
    ours = times(10, 0.1, 1, on_demand=on_demand)
    assert ours == times(10, 0.1, 1, on_demand=on_demand, aggregate=count)
    assert len(ours) > 50


def test_more_bins_spread_wider_by_chance_alone() -> None:
    assert floor(500, 20, 1) == pytest.approx(1.36, abs=0.03)
    assert floor(50, 20, 1) < floor(500, 20, 1)


def test_a_tiny_run_gives_the_table() -> None:
    outcome = burstiness.report(Size(1, 0.12), Trial("quick"))
    assert len(outcome.findings) == 3 + 2 * len(SLIDES)
    assert [panel.title for panel in outcome.panels] == ["Burstiness of the results"]


def test_burstiness_that_grows_in_spite_of_bounds_is_not_confirmed() -> None:
    bad = {(slide, on): Sample((1.0 + slide,)) for slide in SLIDES for on in (False, True)}
    assert [finding.verdict for finding in burstiness._claims(bad, 1.3)] == [
        "confirmed",
        "not confirmed",
        "not confirmed",
    ]
    flat = {(slide, on): Sample((1.3,)) for slide in SLIDES for on in (False, True)}
    assert [finding.verdict for finding in burstiness._claims(flat, 1.3)] == ["not confirmed", "confirmed", "confirmed"]
