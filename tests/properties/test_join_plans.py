"""The search for join plans against all trees and all search orders, and the published algorithms against optima."""

import math
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.join_tree import all_trees, branches, canonical, check
from headrace.optimizer.joins.cost import PROBED, UNIT, Costs, Model
from headrace.optimizer.joins.exact import count_divisions, divisions, exact_front
from headrace.optimizer.joins.fitting import Fitter
from headrace.optimizer.joins.front import Limits, dominates, front, qualified
from headrace.optimizer.joins.join_graph import JoinGraph, KeyClass, Keys, Stream, Term, port_set, uniform
from headrace.optimizer.joins.min_state import min_state
from headrace.optimizer.joins.orders import best_orders, ibaraki_kameda, published_orders
from headrace.optimizer.joins.search import heuristic_plans, search
from headrace.optimizer.joins.state_removal import state_removal
from headrace.optimizer.joins.state_selection import state_selection

COSTS = Costs(store=2.0, search=1.0, candidate=0.5, match=0.3, step=3.0, stored_byte=0.1, derived_byte=0.05, row=8.0)
numbers = st.floats(0.5, 100)
shares = st.floats(0.001, 1.0)


def work(model: Model, block: int, order: tuple[int, ...]) -> float:
    """Return the work of one child's searches in a graph without keys."""
    return model.searching(block, order, dict.fromkeys(order, 0))


@st.composite
def streams(draw, count: int) -> tuple[Stream, ...]:
    return tuple(Stream(draw(numbers), draw(numbers) * 5, draw(numbers), draw(shares)) for _ in range(count))


@st.composite
def trees_of_terms(draw, low: int = 3, high: int = 5) -> JoinGraph:
    """Draw a join graph without cycles."""
    count = draw(st.integers(low, high))
    terms = (Term(1 << port | 1 << draw(st.integers(0, port - 1)), draw(shares)) for port in range(1, count))
    return JoinGraph(draw(streams(count)), terms=tuple(terms))


@st.composite
def graphs(draw, low: int = 3, high: int = 5, classes: int = 1) -> JoinGraph:
    """Draw a join graph of any form: cycles, classes of keys, parts that nothing links."""
    count = draw(st.integers(low, high))
    sets = st.sets(st.integers(0, count - 1), min_size=2)
    key_classes = []
    for ports in draw(st.lists(sets, max_size=classes)):
        if draw(st.booleans()):
            key_classes.append(uniform(sorted(ports), draw(st.floats(1, 100))))
        else:
            keys = [Keys(1, tuple(draw(shares) / 3 for _ in ports)) for _ in range(3)]
            key_classes.append(KeyClass(tuple(sorted(ports)), tuple(keys)))
    terms = [Term(port_set(ports), draw(shares)) for ports in draw(st.lists(sets, max_size=count))]
    return JoinGraph(draw(streams(count)), tuple(key_classes), tuple(terms))


@pytest.mark.parametrize("costs", [UNIT, PROBED, COSTS])
@settings(max_examples=8, deadline=None)
@given(graph=graphs(classes=1))
def test_exact_search_gives_the_front_of_all_trees(costs, graph) -> None:
    model = Model(graph, costs)
    fitter = Fitter(model)
    everything = front(fitter.plan(tree) for tree in all_trees(range(len(graph.streams))))
    found = exact_front(model)

    assert [plan.cpu for plan in found] == pytest.approx([plan.cpu for plan in everything])
    assert [plan.memory for plan in found] == pytest.approx([plan.memory for plan in everything])


@settings(max_examples=20, deadline=None)
@given(graph=graphs(high=6, classes=3))
def test_plans_that_are_found_cost_what_they_say_and_none_dominates_another(graph) -> None:
    model = Model(graph, COSTS)
    for found in (exact_front(model), search(model, exact_up_to=2)):
        for plan in found:
            check(plan.tree, len(graph.streams))
            again = model.plan(plan.tree)
            assert [plan.cpu, plan.memory] == pytest.approx([again.cpu, again.memory])
            assert not any(dominates(other, plan) for other in found)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(high=6, classes=1))
def test_exact_search_is_never_worse_than_the_published_algorithms(graph) -> None:
    model = Model(graph, COSTS)
    found = exact_front(model)
    for plan in heuristic_plans(model):
        roomy = Limits(plan.cpu * (1 + 1e-9), plan.memory * (1 + 1e-9))
        assert qualified(found, roomy)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(low=3, high=4, classes=0))
def test_search_orders_without_keys_are_the_best_of_all(graph) -> None:
    model = Model(graph, COSTS)
    for blocks in divisions(graph.everything):
        orders = best_orders(model, blocks)
        for place, block in enumerate(blocks):
            others = blocks[:place] + blocks[place + 1 :]
            least = min(work(model, block, order) for order in permutations(others))
            assert work(model, block, orders[place]) == pytest.approx(least)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(low=3, high=3, classes=3))
def test_search_orders_of_three_streams_are_the_best_of_all_together(graph) -> None:
    model = Model(graph, COSTS)
    ways = [tuple(permutations(1 << other for other in range(3) if other != port)) for port in range(3)]
    least = min(model.branch((1, 2, 4), orders)[0] for orders in product(*ways))

    assert model.branch((1, 2, 4), best_orders(model, (1, 2, 4)))[0] == pytest.approx(least)


@settings(max_examples=20, deadline=None)
@given(graph=trees_of_terms())
def test_ibaraki_and_kameda_find_the_best_order_that_follows_the_edges_of_a_tree(graph) -> None:
    model = Model(graph, UNIT)
    blocks = tuple(1 << port for port in range(len(graph.streams)))

    def follows_edges(order) -> bool:
        rows = order[0]
        for other in order[1:]:
            if not model.estimates.related(rows, other):
                return False
            rows |= other
        return True

    for block, order in zip(blocks, ibaraki_kameda(model, blocks), strict=True):
        others = [other for other in blocks if other != block]
        least = min(work(model, block, way) for way in permutations(others) if follows_edges((block, *way)))
        assert work(model, block, order) == pytest.approx(least)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(high=6, classes=2))
def test_published_orders_are_whole(graph) -> None:
    blocks = tuple(1 << port for port in range(len(graph.streams)))
    for block, order in zip(blocks, published_orders(Model(graph, UNIT), blocks), strict=True):
        assert sorted((block, *order)) == list(blocks)


@settings(max_examples=20, deadline=None)
@given(rates=st.lists(numbers, min_size=3, max_size=5), data=st.data())
def test_min_state_finds_the_smallest_states_of_a_star(rates, data) -> None:
    terms = tuple(Term(1 | 1 << port, data.draw(shares)) for port in range(1, len(rates)))
    model = Model(JoinGraph(tuple(Stream(rate, rate) for rate in rates), terms=terms), UNIT)

    def is_linked(tree) -> bool:
        """Return whether every join has the center of the star, so that it is no cross product."""
        return all(len(branch.children) == 2 and 0 in _ports(branch) for branch in branches(tree))

    least = min(model.plan(tree).memory for tree in all_trees(range(len(rates))) if is_linked(tree))
    assert model.plan(min_state(model.estimates)).memory == pytest.approx(least)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(high=6, classes=1), cpu=st.floats(0, 1), memory=st.floats(0, 1))
def test_the_published_algorithms_end_with_a_plan_that_keeps_the_limits_or_say_that_they_have_none(
    graph, cpu, memory
) -> None:
    model = Model(graph, UNIT)
    plans = heuristic_plans(model)
    limits = Limits(_between(cpu, [plan.cpu for plan in plans]), _between(memory, [plan.memory for plan in plans]))
    selected = state_selection(model, limits)
    removed = state_removal(model, min_state(model.estimates), limits)

    assert all(one.cpu > other.cpu for one, other in pairwise(selected))
    assert all(plan.memory <= limits.memory for plan in selected[1:])
    assert limits.keeps(removed[-1]) or canonical(removed[-1].tree) == canonical(selected[0].tree)


def test_the_number_of_divisions_is_that_of_the_search() -> None:
    for count in range(2, 7):
        looked_at = sum(1 for ports in range(1, 1 << count) for _ in divisions(ports))
        assert looked_at == count_divisions(count)
    assert [count_divisions(count) for count in (6, 7, 8)] == [813, 4_012, 20_891]


def _between(share: float, values: list[float]) -> float:
    return math.exp(share * math.log(max(values)) + (1 - share) * math.log(min(values)))


def _ports(branch) -> tuple[int, ...]:
    return tuple(port for child in branch.children for port in ((child,) if isinstance(child, int) else _ports(child)))
