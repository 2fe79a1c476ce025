"""The cost model and the published algorithms on settings whose costs are known; numbers are those of the vectors."""

import pytest

from headrace.model.join_tree import Branch, flat, format_tree, parse_tree
from headrace.optimizer.joins.cost import PROBED, UNIT, Model
from headrace.optimizer.joins.exact import exact_front
from headrace.optimizer.joins.fitting import Fitter
from headrace.optimizer.joins.front import Limits, qualified
from headrace.optimizer.joins.join_graph import Estimates, JoinGraph, KeyClass, Keys, Stream, Term, port_set, uniform
from headrace.optimizer.joins.min_state import min_state
from headrace.optimizer.joins.orders import best_orders, greedy, ibaraki_kameda, published_orders
from headrace.optimizer.joins.state_removal import removals, state_removal
from headrace.optimizer.joins.state_selection import adjacent, state_selection

NAMES = ("A", "B", "C", "D")
A, B, C, D = 1, 2, 4, 8


def graph_of(rates: tuple[float, ...], window: float, selectivities: dict[str, float]) -> JoinGraph:
    """Return a graph with one window; selectivities are those of pairs, such as `AB`."""
    terms = (Term(port_set(map(NAMES.index, pair)), share) for pair, share in selectivities.items())
    return JoinGraph(tuple(Stream(rate, rate * window) for rate in rates), terms=tuple(terms))


SET_1 = graph_of((20, 20, 20), 5, {"AB": 0.05, "BC": 0.5})
SET_2 = graph_of((20, 20, 50), 15, {"AB": 0.02, "BC": 0.5})
SET_3 = graph_of((10, 10, 10, 10), 15, {"AB": 0.1, "BC": 0.15, "CD": 0.1})
SET_4 = graph_of((20, 20, 20, 20), 50, {"AB": 0.02, "BC": 0.2, "CD": 0.05})


def front_of(graph: JoinGraph):
    return {
        format_tree(plan.tree, NAMES): (pytest.approx(plan.cpu), pytest.approx(plan.memory))
        for plan in exact_front(Model(graph, UNIT))
    }


def cost(graph: JoinGraph, text: str, costs=UNIT):
    count = len(graph.streams)
    plan = Fitter(Model(graph, costs)).plan(parse_tree(text, NAMES[:count]))
    return pytest.approx(plan.cpu), pytest.approx(plan.memory)


def work(model: Model, block: int, order: tuple[int, ...]) -> float:
    return model.searching(block, order, dict.fromkeys(order, 0))


def test_vector_1_the_order_of_ibaraki_and_kameda_beats_the_greedy_one() -> None:
    model = Model(
        JoinGraph(
            (Stream(1, 1), Stream(1, 4), Stream(1, 6), Stream(1, 1)),
            terms=(Term(A | B, 0.5), Term(A | C, 0.5), Term(C | D, 0.1)),
        ),
        UNIT,
    )
    blocks = (A, B, C, D)
    ours, nearest = ibaraki_kameda(model, blocks)[0], greedy(model, blocks)[0]

    assert ours == (C, D, B)
    assert nearest == (B, C, D)
    assert work(model, A, ours) == pytest.approx(3.9)
    assert work(model, A, nearest) == pytest.approx(8.6)


def test_vector_2_both_plans_of_the_first_set() -> None:
    assert cost(SET_1, "(A B C)") == (16_320, 300)
    assert cost(SET_1, "((A B) C)") == (15_720, 800)


def test_vector_3_the_second_set_by_matches_and_by_probed_pairs() -> None:
    assert cost(SET_2, "(A B C)") == (142_920, 1_350)
    assert cost(SET_2, "((A B) C)") == (135_900, 3_150)
    assert cost(SET_2, "(A B C)", PROBED)[0] == 2_457_180
    assert cost(SET_2, "((A B) C)", PROBED)[0] == 282_660


def test_vector_4_the_front_of_the_third_set() -> None:
    assert front_of(SET_3) == {
        "(A B C D)": (216_680, 600),
        "((A B) C D)": (210_530, 2_850),
        "((A B) (C D))": (204_380, 5_100),
    }


def test_vector_5_the_front_of_the_fourth_set() -> None:
    assert front_of(SET_4) == {
        "(A B C D)": (16_445_960, 4_000),
        "((A B) C D)": (16_164_560, 24_000),
        "((A B) (C D))": (16_008_560, 74_000),
    }


@pytest.mark.parametrize("orders", [best_orders, published_orders])
def test_vector_5_search_orders_and_neighbors_in_them(orders) -> None:
    found = orders(Model(SET_4, UNIT), (A, B, C, D))

    assert found == ((B, C, D), (A, C, D), (B, A, D), (C, B, A))
    assert adjacent((A, B, C, D), found) == {(A, B): 4, (B, C): 3, (C, D): 3, (A, C): 1, (A, D): 1}


def test_vector_5_what_the_removal_of_a_state_costs() -> None:
    fitter = Fitter(Model(SET_4, UNIT))
    ratios = {
        format_tree(plan.tree, NAMES): ratio
        for ratio, plan in removals(fitter, fitter.plan(parse_tree("((A B) (C D))", NAMES)))
    }

    assert ratios == {"((A B) C D)": pytest.approx(3.12), "(A B (C D))": pytest.approx(19.92)}


def test_vector_5_both_heuristics_find_the_hybrid_tree_if_only_it_keeps_the_limits() -> None:
    model, limits = Model(SET_4, UNIT), Limits(16_300_000, 30_000)
    selected = state_selection(model, limits)
    removed = state_removal(model, min_state(model.estimates), limits)

    assert [format_tree(plan.tree, NAMES) for plan in selected] == ["(A B C D)", "((A B) C D)"]
    assert [format_tree(plan.tree, NAMES) for plan in removed] == ["((A B) (C D))", "((A B) C D)"]


def test_vector_6_min_state_is_greedy() -> None:
    graph = graph_of((10, 1, 20, 10), 1, {"AB": 0.3, "BC": 0.3, "CD": 0.05})
    estimates = Estimates(graph)

    assert format_tree(min_state(estimates), NAMES) == "((A B) (C D))"
    assert estimates.held(A | B) + estimates.held(C | D) == pytest.approx(13)
    assert estimates.held(B | C) + estimates.held(B | C | D) == pytest.approx(9)


def test_min_state_compares_states_by_rows_in_windows() -> None:
    graph = graph_of((20, 20, 5, 2), 10, {"AB": 0.5, "BC": 0.5, "CD": 0.5})
    tree = min_state(Estimates(graph))

    assert format_tree(tree, NAMES) == "((C D) (A B))"
    assert Model(graph, UNIT).plan(tree).memory - 470 == pytest.approx(20_500)


def test_a_cross_product_can_be_the_better_start() -> None:
    model = Model(
        JoinGraph((Stream(100, 500), Stream(1, 5), Stream(10, 50)), terms=(Term(A | B, 0.5), Term(A | C, 0.04))), UNIT
    )

    assert work(model, B, (A, C)) == pytest.approx(750)
    assert work(model, B, (C, A)) == pytest.approx(550)
    assert published_orders(model, (A, B, C))[1] == (C, A)
    assert best_orders(model, (A, B, C))[1] == (C, A)


def test_cross_products_in_the_spanning_tree_can_harm_and_the_cheaper_order_is_taken() -> None:
    model = Model(graph_of((1, 5, 2, 20), 1, {"AB": 0.5, "BC": 0.1, "BD": 0.2}), UNIT)
    blocks = (A, B, C, D)

    def total(orders) -> float:
        return sum(work(model, block, order) for block, order in zip(blocks, orders, strict=True))

    with_tree, with_cross = (ibaraki_kameda(model, blocks, cross=cross) for cross in (False, True))
    assert total(with_cross) > total(with_tree)
    assert total(published_orders(model, blocks)) <= total(with_tree)


def test_exact_search_finds_a_plan_whose_parts_exceed_both_limits() -> None:
    graph = graph_of((10, 20, 1, 2), 1, {"AB": 0.5, "BC": 0.5, "AD": 0.05})
    limits = Limits(101.1, 35.035)

    assert cost(graph, "(((A D) C) B)") == (101, 35)
    assert not limits.keeps(Fitter(Model(graph, UNIT)).plan(flat(4)))
    assert qualified(exact_front(Model(graph, UNIT)), limits)


def test_printed_formulas_for_a_chain_of_three() -> None:
    rate_a, rate_b, rate_c, window, ab, bc = 3.0, 5.0, 7.0, 2.0, 0.3, 0.9
    graph = graph_of((rate_a, rate_b, rate_c), window, {"AB": ab, "BC": bc})
    model = Model(graph, UNIT)
    all_three, upkeep = rate_a * rate_b * rate_c * ab * bc * window**2, 2 * (rate_a + rate_b + rate_c)
    pairs = rate_a * rate_b * ab * window
    orders = ((1, 2), (0, 2), (1, 0))
    mjoin = model.plan(Branch((0, 1, 2), orders))
    tree = model.plan(parse_tree("((A B) C)", NAMES[:3]))

    assert mjoin.cpu == pytest.approx(upkeep + rate_b * rate_c * bc * window + 3 * all_three + 2 * pairs)  # (4.2)
    assert mjoin.memory == pytest.approx((rate_a + rate_b + rate_c) * window)  # (4.3)
    assert tree.cpu == pytest.approx(upkeep + 3 * all_three + 2 * pairs * 3)  # (4.4)
    assert tree.memory == pytest.approx(mjoin.memory + pairs * window)  # (4.5)


def test_windows_that_differ_count_as_rows_that_are_held() -> None:
    estimates = Estimates(JoinGraph((Stream(10, 100), Stream(2, 600)), terms=(Term(A | B, 0.5),)))

    assert estimates.held(A | B) == pytest.approx(30_000)
    assert estimates.rate(A | B) == pytest.approx(0.5 * (10 * 600 + 2 * 100))


def test_a_join_in_which_nothing_is_held_has_a_plan() -> None:
    graph = JoinGraph((Stream(0, 0), Stream(1, 0), Stream(1, 5)), terms=(Term(A | B, 0.0),))

    assert exact_front(Model(graph, UNIT))
    assert Fitter(Model(graph, UNIT)).plan(flat(3)).memory == pytest.approx(5)


def test_a_state_is_sorted_by_what_all_that_search_it_have_in_common() -> None:
    streams = (Stream(10, 100), Stream(10, 100), Stream(10, 100))
    model = Model(JoinGraph(streams, (uniform((0, 1), 50), uniform((1, 2), 50))), PROBED)
    blocks, along = (A, B, C), ((B, C), (A, C), (B, A))

    assert model.keys(blocks, along) == {A: 1, B: 0, C: 2}  # A and C search B by different keys
    assert model.keys((A | B, C), ((C,), (A | B,))) == {A | B: 2, C: 2}
    assert model.branch(blocks, along)[0] > 5 * model.plan(parse_tree("((A B) C)", NAMES[:3])).cpu


def test_equal_keys_of_three_streams_that_are_skewed_match_more_often_than_pairs_say() -> None:
    skewed = KeyClass((0, 1, 2), (Keys(1, (0.5, 0.5, 0.5)), Keys(50, (0.01, 0.01, 0.01))))

    pairs = skewed.selectivity(A | B)
    assert pairs == pytest.approx(0.255)
    assert skewed.selectivity(A | B | C) == pytest.approx(0.12505)
    assert skewed.selectivity(A | B | C) > 1.9 * pairs**2
    assert uniform((0, 1, 2), 50).selectivity(A | B | C) == pytest.approx(0.02**2)
