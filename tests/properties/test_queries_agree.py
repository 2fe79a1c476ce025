"""Random queries over random histories: the operators, however tuples are cut into pages, give what the oracle says."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.commands.shedders_in_force import sheddable
from headrace.graph.graph import Arc
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.optimizer.gathering import gather_joins
from headrace.optimizer.optimizer import best
from headrace.plan.binding.binder import bind
from headrace.plan.explain import explain
from headrace.plan.nodes import Aggregate, Node, inputs
from headrace.testing.oracle.oracle import answer, as_multiset
from headrace.testing.run_graph import run_graph
from headrace.testing.strategies.queries import STREAMS, TABLE_ROWS, stream_histories
from headrace.testing.strategies.shapes import SHAPES, STORED, catalog

CATALOG = catalog()
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "8"))


def plan_of(text: str) -> Node:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return bind(statement.select, statement.text, CATALOG)


@pytest.mark.parametrize("shape", SHAPES)
def test_operators_agree_with_the_oracle(shape):
    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(SHAPES[shape], stream_histories(most=10), st.sampled_from([1, 3, 100]), st.booleans(), st.booleans())
    def run(text, histories, size, optimized, forgetful):
        plan = plan_of(text)
        chosen = gather_joins(best(plan)) if optimized else plan
        note(f"{text}\n{explain(chosen)}")
        expected = as_multiset(answer(plan, histories, TABLE_ROWS))
        found = as_multiset(run_graph(lower(chosen, "q", STORED), STREAMS, histories, size=size, forgetful=forgetful))
        assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"

    run()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_that_is_shed_gives_no_result_that_it_would_not_give_otherwise(shape):
    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(SHAPES[shape], stream_histories(most=10), st.integers(0, 99), st.sampled_from([0.2, 0.5]))
    def run(text, histories, seed, share):
        plan = gather_joins(best(plan_of(text)))
        note(f"{text}\n{explain(plan)}")
        if _aggregates(plan):
            return  # a loss changes the values of its results
        graph, chance = lower(plan, "q", STORED), random.Random(seed)
        arcs = sheddable(graph)

        def keep(arc: Arc, page: Page) -> Page:
            drawn = [arc not in arcs or chance.random() >= share for _ in range(len(page))]
            return Page(page.rows.filter(drawn))

        exact = as_multiset(run_graph(graph, STREAMS, histories, size=3))
        shed = as_multiset(run_graph(graph, STREAMS, histories, size=3, keep=keep))
        assert shed <= exact, f"created {dict(shed - exact)}"

    run()


def _aggregates(plan: Node) -> bool:
    return isinstance(plan, Aggregate) or any(map(_aggregates, inputs(plan)))
