"""Feedback in a running engine: guards, what they save, when they end, forks, and rules for promises."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest

from headrace.engine.engine import Engine
from headrace.engine.feedback.guards import MAX_GUARDS, Guard, guards_of
from headrace.engine.remembered import Remembered
from headrace.graph.feedback import arcs_of, invariants_of, spread_all, spread_from, stamped, supportable, tap_of
from headrace.graph.graph import Graph, Vertex
from headrace.graph.place import place
from headrace.model.expressions.expression import TRUE, Column
from headrace.model.page import Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import Between, Match, OneOf, at_least, at_most, equal, less, more, unequal
from headrace.model.patterns.pattern import STAMP, Pattern, pattern
from headrace.model.schema import TS, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Extent, Range
from headrace.operators import specs
from headrace.operators.capabilities import held_by
from headrace.operators.joins.join import JoinOperator

X, G, V = Column("x", Type.STRING), Column("g", Type.BIGINT), Column("v", Type.INT)


def assumed(*terms: tuple[Column, Match]) -> Feedback:
    return Feedback(Intent.ASSUMED, pattern(*terms))


def page(*rows: tuple[int, int, int]) -> Page:
    return Page(pl.DataFrame(rows, schema={"g": pl.Int64, "v": pl.Int32, TS: pl.Int64}, orient="row"))


def scan(name: str = "s") -> Vertex:
    return Vertex(name, specs.Scan(name, ("g", "v")))


def out(origin: str, name: str = "out") -> Vertex:
    return Vertex(name, specs.Output(name), (origin,))


def counting(window: Range) -> tuple[Vertex, Vertex]:
    keys, calls = (("g", G),), (AggregateCall("n", "count", None, Type.BIGINT),)
    return Vertex("p", specs.PartialAggregate(window, keys, calls), ("s",)), Vertex(
        "a", specs.PaneAggregate(window, keys, calls), ("p",)
    )


def results(engine: Engine, end: str = "out") -> list[tuple[Any, ...]]:
    engine.run()
    return [row for one in engine.take_results().get(end, []) for row in one.visible().rows()]


def straight() -> Graph:
    return Graph((scan(), Vertex("f", specs.Filter(TRUE), ("s",)), out("f")))


def test_a_guard_drops_tuples_and_counts_them_but_never_a_promise() -> None:
    engine = Engine(straight())
    assert engine.feedback("out", assumed((G, equal(1)), (STAMP, less(10))))
    engine.push("s", page((1, 0, 1), (2, 0, 2), (1, 0, 12)))
    engine.push("s", Punctuation(5))
    assert results(engine) == [(2, 0), (1, 0)]
    assert engine.bounds.reached["out"] == 5
    assert [(guard.arc, guard.saved) for guard in engine.guards.in_force()] == [(("out", 0), 0), (("f", 0), 1)]
    assert (
        str(engine.guards.in_force()[1])
        == "f.0: not [timestamp < TIMESTAMP '1970-01-01 00:00:00.000010', g = 1], 1 saved"
    )
    assert engine.guards.relayed == {"s": [assumed((G, equal(1)), (STAMP, less(10)))]}


def test_a_guard_goes_when_a_bound_covers_it() -> None:
    engine = Engine(straight())
    engine.feedback("out", assumed((STAMP, less(13))))
    engine.feedback("out", assumed((V, more(1))))
    engine.push("s", Punctuation(12))
    engine.run()
    assert len(engine.guards.in_force()) == 4
    engine.push("s", Punctuation(13))
    engine.run()
    assert {str(guard.pattern) for guard in engine.guards.in_force()} == {"v > 1"}  # never covered by time
    ended = engine.guards.take_ended()
    assert [(one.reader, str(one.pattern), one.saved) for one in ended[:1]] == [
        ("f", "timestamp < TIMESTAMP '1970-01-01 00:00:00.000013'", 0)
    ]
    assert engine.guards.take_ended() == []  # those that ended were seen


def test_what_can_be_supported_is_known_before() -> None:
    graph = Graph((scan(), *counting(Range(10, 10)), out("a")))
    assert supportable(graph, "out", pattern((STAMP, less(5)))) is None
    assert supportable(graph, "out", pattern((Column("window_end", Type.TIMESTAMP), at_most(5)), (G, equal(1)))) is None
    assert (
        supportable(graph, "out", pattern((G, equal(1))))
        == "nothing in [g = 1] ends with time: say up to when it holds, or change the query"
    )
    assert supportable(graph, "out", pattern((STAMP, at_least(5)))) is not None
    assert supportable(graph, "out", pattern((G, OneOf(())))) == "no tuple can match it"
    timed = Graph((Vertex("s", specs.Scan("s", ("at", "g"))), out("s")))
    at = Column("at", Type.TIMESTAMP)
    assert supportable(timed, "out", pattern((at, less(5)))) is not None
    assert supportable(timed, "out", pattern((at, less(5))), {"s": "at"}) is None
    assert stamped(timed, "out", pattern((at, less(5))), {"s": "at"}) == pattern((STAMP, less(5)))


def test_the_oldest_guard_that_nothing_depends_on_makes_room() -> None:
    times_two = Graph(
        (
            scan(),
            Vertex("d", specs.Distinct((G, V), 5), ("s",)),
            Vertex("p", specs.Project((("y", G),)), ("d",)),
            out("p"),
        )
    )
    engine = Engine(Graph((*times_two.vertices[:2], out("d"))))
    for bound in range(
        MAX_GUARDS + 2
    ):  # holes in time cannot be passed on through DISTINCT, so these are results dropped, no more
        engine.feedback("out", assumed((G, equal(bound)), (STAMP, unequal(3))))
    assert len(engine.guards.in_force()) == MAX_GUARDS
    assert str(engine.guards.in_force()[0].pattern).endswith("g = 2")
    firm = Engine(Graph((*times_two.vertices[:2], out("d"))))
    taken = [firm.feedback("out", assumed((G, equal(number)))) for number in range(MAX_GUARDS + 2)]
    assert (
        taken == [True] * MAX_GUARDS + [False] * 2
    )  # ignored, which is always right: a purge may depend on the others


def test_waiting_tuples_are_dropped_too_since_feedback_comes_before_data() -> None:
    engine = Engine(straight())
    engine.push("s", page((1, 0, 1), (2, 0, 1)))
    engine.feedback("out", assumed((G, equal(1))))
    assert results(engine) == [(2, 0)]


def test_a_fork_tells_its_source_what_all_branches_do_not_need() -> None:
    branches = (Vertex("a", specs.Filter(TRUE), ("s",)), Vertex("b", specs.Filter(TRUE), ("s",)))
    engine = Engine(Graph((scan(), *branches, out("a"), out("b", "other"))))
    engine.feedback("out", assumed((G, equal(1))))
    assert engine.guards.relayed == {}
    engine.push("s", page((1, 1, 1), (2, 2, 1)))
    engine.run()
    taken = engine.take_results()
    assert [taken[end][0].rows["g"].to_list() for end in ("out", "other")] == [[2], [1, 2]]
    engine.feedback("other", assumed((V, at_most(1))))
    assert engine.guards.relayed == {"s": [assumed((G, equal(1)), (V, at_most(1)))]}
    assert engine.network.stored("s") == 0  # a guarded tuple is read, and forgotten, like any other


def test_a_new_reader_gets_everything_again_and_one_that_goes_needs_nothing() -> None:
    graph = straight()
    engine = Engine(graph)
    engine.feedback("out", assumed((G, equal(1))))
    assert len(engine.guards.in_force()) == 2
    both = Graph((*graph.vertices, out("f", "other")))
    engine.use(both)
    assert [guard.arc for guard in engine.guards.in_force()] == [("out", 0)]
    assert engine.guards.relayed == {}
    engine.push("s", page((1, 0, 1)))
    engine.run()
    assert set(engine.take_results()) == {"other"}
    engine.use(graph)
    assert [guard.arc for guard in engine.guards.in_force()] == [("out", 0), ("f", 0)]
    assert [guard.saved for guard in engine.guards.in_force()] == [1, 0]


def test_a_tap_is_a_reader() -> None:
    graph = Graph((scan(), Vertex("f", specs.Filter(TRUE), ("s",))))
    engine = Engine(graph, taps=("f",))
    engine.feedback("f", assumed((G, equal(1))))
    assert [guard.arc for guard in engine.guards.in_force()] == [(tap_of("f"), 0), ("f", 0)]
    engine.push("s", page((1, 0, 1), (2, 0, 1)))
    assert results(engine, "f") == [(2, 0)]
    both = Engine(straight(), taps=("f",))
    both.feedback("out", assumed((G, equal(1))))
    assert both.guards.relayed == {}  # who taps was not asked
    both.push("s", page((1, 0, 1)))
    both.run()
    assert set(both.take_results()) == {"f"}


def test_state_is_purged() -> None:
    engine = Engine(Graph((scan(), *counting(Range(10, 10)), out("a"))))
    engine.push("s", page((1, 0, 1), (1, 0, 2), (2, 0, 3)))
    engine.run()
    assert held_by(engine.operators["a"]) == 2
    engine.feedback("out", assumed((G, equal(1)), (STAMP, less(20))))
    assert held_by(engine.operators["a"]) == 1
    assert engine.guards.purged == 1
    assert engine.guards.relayed == {
        "s": [assumed((G, equal(1)), (STAMP, less(10)))]
    }  # of the window that ends at 20 a tuple is not over
    engine.push("s", page((1, 0, 4), (2, 0, 11)))
    engine.push("s", Punctuation(END))
    assert [row[:2] for row in results(engine)] == [(2, 1), (2, 1)]
    assert engine.guards.in_force() == []


def test_a_join_forgets_and_a_lonely_tuple_that_nobody_needs_holds_up_nothing() -> None:
    side = Schema.of(g=Type.BIGINT, v=Type.INT)
    join = specs.Join("left", side, side, ("h", "w"), ((G, G),), None, Extent(50), Extent(50), False)
    engine = Engine(Graph((scan("s"), scan("r"), Vertex("j", join, ("s", "r")), out("j"))))
    engine.push("s", page((1, 0, 1), (2, 0, 9)))
    engine.run()
    engine.feedback("out", assumed((G, equal(1)), (STAMP, less(100))))
    assert held_by(engine.operators["j"]) == 1
    engine.push("s", Punctuation(20))
    engine.push("r", Punctuation(20))
    engine.run()
    assert engine.bounds.reached["out"] == 9  # only the needed one waits


def test_groups_that_match_for_ever_are_found_while_they_run() -> None:
    engine = Engine(Graph((scan(), *counting(Range(10, 10)), out("a"))))
    engine.feedback("out", assumed((Column("n", Type.BIGINT), at_least(2))))
    engine.push("s", page((1, 0, 1), (2, 0, 2)))
    engine.run()
    assert engine.guards.relayed == {}
    engine.push("s", page((1, 0, 3), (3, 0, 3), (3, 0, 4)))
    engine.run()
    assert engine.guards.relayed == {"s": [assumed((G, OneOf((1, 3))), (STAMP, Between(0, 10, open_high=True)))]}
    assert held_by(engine.operators["a"]) == 1
    engine.push("s", page((1, 0, 5), (1, 0, 15)))
    engine.push("s", Punctuation(10))
    assert [row[:2] for row in results(engine)] == [(2, 1)]
    assert {guard.kind for guard in engine.guards.in_force()} == {"given"}  # what was found ended with its window
    engine.push("s", Punctuation(END))
    assert [row[:2] for row in results(engine)] == [(1, 1)]


def copied(engine: Engine, graph: Graph) -> Engine:
    """The engine after a restart, through bytes."""
    again = Engine(graph)
    again.restore(
        {
            name: {chunk: Page.decode(Page(frame).encode()).rows for chunk, frame in state.items()}
            for name, state in engine.state().items()
        }
    )
    again.guards.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(engine.guards.in_force()), type=list[Guard]))
    return again


def test_guards_survive_a_restart() -> None:
    graph = Graph((scan(), *counting(Range(10, 10)), out("a")))
    engine = Engine(graph)
    engine.feedback("out", assumed((Column("n", Type.BIGINT), at_least(2))))
    engine.feedback("out", assumed((G, equal(4)), (STAMP, at_most(10))))
    engine.push("s", page((1, 0, 1), (1, 0, 2), (2, 0, 3), (4, 0, 1)))
    engine.run()
    again = copied(engine, graph)
    assert msgspec.to_builtins(again.guards.in_force()) == msgspec.to_builtins(engine.guards.in_force())
    assert again.guards.watches == engine.guards.watches
    again.push("s", page((1, 0, 4), (2, 0, 5), (3, 0, 5), (4, 0, 6)))
    again.push("s", Punctuation(END))
    assert [row[:2] for row in results(again)] == [(3, 1)]  # 1 was found before, 2 after; 4 was told


# The rules by which feedback, promises and scheduling live together


def test_rule_1_a_dropped_tuple_still_tells_the_time(cycles: Any) -> None:
    """V1c, with a guard instead of a selection: without bounds on demand a1 would wait until 5."""
    selections = (cycles.select("sA", "A"), cycles.select("sB", "B"))
    graph = Graph(
        (cycles.scan("A"), cycles.scan("B"), *selections, cycles.union("U", "sA", "sB"), cycles.output("out", "U"))
    )
    for mode, at in (("none", 2), ("absorb", 1), ("registers", 1)):
        engine = cycles.engine(graph, mode)
        engine.feedback("out", Feedback(Intent.ASSUMED, pattern((X, equal("b")))))
        trace = cycles.run(engine, cycles.at("A", "a1@1") + cycles.at("B", "b@2", "b2@5"))
        assert cycles.named(trace)["a1"] == at
        assert "b" not in cycles.named(trace)


def test_rule_1_at_the_union_itself(cycles: Any) -> None:
    graph = Graph((cycles.scan("A"), cycles.scan("B"), cycles.union("U", "A", "B"), cycles.output("out", "U")))
    engine = cycles.engine(graph)
    engine.feedback("out", Feedback(Intent.ASSUMED, pattern((X, equal("b")))))
    trace = cycles.run(engine, cycles.at("A", "a1@1", "a2@3") + cycles.at("B", "b@2", "b2@5"))
    assert cycles.named(trace) == {"a1": 2, "a2": 5}


def test_rule_2_what_is_assumed_is_not_waited_for(cycles: Any) -> None:
    graph = Graph((cycles.scan("A"), cycles.scan("B"), cycles.union("U", "A", "B"), cycles.output("out", "U")))
    engine = cycles.engine(graph)
    engine.push("A", cycles.page(("a1", 1), ("a2", 7)))
    engine.run()
    assert engine.take_results() == {}
    engine.feedback("out", Feedback(Intent.ASSUMED, pattern((STAMP, less(7)))))
    engine.run()
    assert [row for one in engine.take_results()["out"] for row in one.rows["x"]] == ["a2"]
    assert engine.registers("U") == (7, 7)
    engine.push("B", cycles.page(("b1", 3), ("b2", 8)))
    engine.push("A", cycles.page(("a3", 9)))
    engine.run()
    assert [row for one in engine.take_results()["out"] for row in one.rows["x"]] == ["b2"]
    assert engine.network.registers["U"].late == 0  # it was saved, not late
    assert sum(guard.saved for guard in [*engine.guards.in_force(), *engine.guards.ended]) >= 2


def test_rule_2_holds_only_if_every_branch_asked(cycles: Any) -> None:
    ends = (cycles.output("out", "U"), cycles.output("other", "U"))
    engine = cycles.engine(Graph((cycles.scan("A"), cycles.scan("B"), cycles.union("U", "A", "B"), *ends)))
    engine.push("A", cycles.page(("a1", 1)))
    engine.feedback("out", Feedback(Intent.ASSUMED, pattern((STAMP, less(7)))))
    engine.run()
    assert engine.registers("U") == (1, -(2**62))
    assert engine.take_results() == {}


def test_rule_3_wanted_tuples_overtake_others_where_order_is_free() -> None:
    graph = Graph((scan(), Vertex("f", specs.Filter(TRUE), ("s",)), Vertex("u", specs.Union(1), ("f",)), out("u")))
    engine = Engine(graph)
    engine.push("s", page((1, 0, 1), (2, 0, 2)))
    engine.push("s", Punctuation(2))
    engine.push("s", page((2, 1, 3), (1, 1, 4)))
    assert engine.feedback("out", Feedback(Intent.DESIRED, pattern((G, equal(2)))))
    engine.step()
    engine.step()
    engine.run()
    came = [row for one in engine.take_results()["out"] for row in one.rows.rows()]
    assert came == [(2, 0, 2), (2, 1, 3), (1, 0, 1), (1, 1, 4)]
    assert engine.bounds.reached["out"] == 2
    assert engine.guards.relayed == {"s": [Feedback(Intent.DESIRED, pattern((G, equal(2))))]}
    engine.feedback("out", assumed((G, equal(2))))  # no longer, and that is another thing to say
    assert engine.guards.relayed["s"][1:] == [assumed((G, equal(2)))]


def test_of_wanted_tuples_those_of_a_higher_priority_come_first_whoever_asked_last() -> None:
    graph = Graph((scan(), Vertex("f", specs.Filter(TRUE), ("s",)), Vertex("u", specs.Union(1), ("f",)), out("u")))
    for order in ((2, 3, 1), (3, 1, 2), (1, 2, 3)):
        engine = Engine(graph)
        engine.push("s", page((0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 4)))
        for level in order:
            engine.feedback("out", Feedback(Intent.DESIRED, pattern((G, equal(level))), priority=level))
        saved = msgspec.msgpack.decode(msgspec.msgpack.encode(engine.remembered()), type=Remembered)
        engine.run()
        assert [row[0] for one in engine.take_results()["out"] for row in one.rows.rows()] == [3, 2, 1, 0]
        again = Engine(graph)
        again.resume(saved)
        again.push("s", page((0, 0, 1), (2, 0, 3), (3, 0, 4)))
        again.run()
        assert [row[0] for one in again.take_results()["out"] for row in one.rows.rows()] == [3, 2, 0]


def test_what_is_wanted_first_survives_a_restart_and_another_graph() -> None:
    graph = Graph((scan(), Vertex("f", specs.Filter(TRUE), ("s",)), Vertex("u", specs.Union(1), ("f",)), out("u")))
    engine = Engine(graph)
    engine.feedback("out", assumed((G, equal(9))))
    engine.feedback("out", Feedback(Intent.DESIRED, pattern((G, equal(2)))))
    again = Engine(graph)
    again.resume(msgspec.msgpack.decode(msgspec.msgpack.encode(engine.remembered()), type=Remembered))
    again.use(Graph((*graph.vertices, Vertex("d", specs.Distinct((G,), 5), ("u",)), out("d", "other"))))
    again.use(graph)
    assert again.guards.relayed == engine.guards.relayed
    again.push("s", page((1, 0, 1), (2, 0, 2), (9, 0, 2)))
    assert results(again) == [(2, 0), (1, 0)]


def test_rule_3_in_order_only_the_choice_of_branch_changes(cycles: Any) -> None:
    graph = Graph((cycles.scan("A"), cycles.scan("B"), cycles.union("U", "A", "B"), cycles.output("out", "U")))
    engine = cycles.engine(graph)
    engine.push("A", cycles.page(("a1", 1), ("a2", 2)))
    engine.push("B", cycles.page(("b1", 1), ("b2", 3)))
    engine.feedback("out", Feedback(Intent.DESIRED, pattern((X, equal("b2")))))
    engine.run()
    assert [row for one in engine.take_results()["out"] for row in one.rows["x"]] == ["a1", "b1", "a2"]
    sorted_graph = Graph(
        (scan(), Vertex("o", specs.Reorder((), ("g",)), ("s",)), Vertex("f", specs.Filter(TRUE), ("o",)), out("f"))
    )
    ordered = Engine(sorted_graph)
    ordered.push("s", page((1, 0, 1), (2, 0, 2)))
    ordered.push("s", Punctuation(END))
    ordered.step()
    ordered.step()
    ordered.feedback("out", Feedback(Intent.DESIRED, pattern((G, equal(2)))))
    assert results(ordered) == [(1, 0), (2, 0)]


def test_rule_3_a_fork_serves_the_wanted_branch_first(cycles: Any) -> None:
    branches = (cycles.select("a", "A"), cycles.select("b", "A"))
    engine = cycles.engine(Graph((cycles.scan("A"), *branches, cycles.output("out", "a"), cycles.output("other", "b"))))
    engine.push("A", cycles.page(("a1", 1)))
    engine.push("A", cycles.page(("a2", 2)))
    engine.feedback("other", Feedback(Intent.DESIRED, pattern((X, equal("a2")))))
    steps = [step.vertex for step in iter(engine.step, None)]
    assert steps[:2] == ["b", "b"]


@pytest.mark.parametrize("window", [Range(10, 10), Range(10, 5)], ids=str)
def test_rule_4_a_demanded_result_is_partial_and_the_final_one_comes_later(window: Range) -> None:
    double = Vertex("d", specs.Project((("k", G), ("n", Column("n", Type.BIGINT)))), ("a",))
    engine = Engine(Graph((scan(), *counting(window), double, out("d"))))
    engine.push("s", page((1, 0, 1), (1, 0, 2), (2, 0, 3)))
    engine.run()
    held, bound = held_by(engine.operators["a"]), engine.bounds.reached["out"]
    assert engine.feedback("out", Feedback(Intent.DEMANDED, pattern((Column("k", Type.BIGINT), equal(1)))))
    partial = [row for one in engine.take_partials()["out"] for row in one.visible().rows()]
    assert set(partial) == {(1, 2)}
    assert engine.take_partials() == {}
    assert engine.take_results() == {}
    assert (held_by(engine.operators["a"]), engine.bounds.reached["out"]) == (held, bound)
    engine.push("s", page((1, 0, 4)))
    engine.push("s", Punctuation(END))
    assert set(results(engine)) == {(1, 3), (2, 1)}


def test_rule_5_a_guard_of_one_branch_frees_what_it_skips(cycles: Any) -> None:
    branches = (cycles.select("a", "A"), cycles.select("b", "A"))
    engine = cycles.engine(Graph((cycles.scan("A"), *branches, cycles.output("out", "a"), cycles.output("other", "b"))))
    engine.feedback("out", Feedback(Intent.ASSUMED, pattern((X, equal("a1")))))
    engine.push("A", cycles.page(("a1", 1)))
    engine.run()
    assert engine.network.stored("A") == 0
    assert set(engine.take_results()) == {"other"}


def test_rule_6_feedback_crosses_a_break(cycles: Any) -> None:
    engine = cycles.engine(cycles.path(3))
    engine.dispatch.set_break("q2")
    engine.feedback("out", Feedback(Intent.ASSUMED, pattern((X, equal("b")), (STAMP, less(9)))))
    assert [guard.reader for guard in engine.guards.in_force()] == ["out", "q3", "q2", "q1"]
    engine.push("S", cycles.page(("a", 1), ("b", 2)))
    engine.push("S", Punctuation(9))
    engine.run()
    assert [row for one in engine.take_results()["out"] for row in one.rows["x"]] == ["a"]
    assert engine.guards.in_force() == []


def test_rule_7_a_silent_source_is_asked_so_that_guards_can_go(cycles: Any) -> None:
    engine = cycles.engine(cycles.path(1), "absorb")
    engine.feedback("out", Feedback(Intent.ASSUMED, pattern((STAMP, less(5)))))
    cycles.clock.advance(4)
    engine.run()
    assert len(engine.guards.in_force()) == 2
    assert engine.asked == 0
    cycles.clock.advance(1)
    engine.run()
    assert engine.guards.in_force() == []
    assert engine.asked == 1


def test_spread_says_the_same_without_running() -> None:
    graph = Graph((scan(), *counting(Range(10, 10)), out("a")))
    wanted = pattern((G, equal(1)), (STAMP, less(20)))
    found = spread_from(graph, arcs_of(graph, "out"), wanted)
    engine = Engine(graph)
    engine.feedback("out", Feedback(Intent.ASSUMED, wanted))
    assert [(guard.arc, guard.pattern) for guard in engine.guards.in_force()] == list(found.guards)
    assert found.of_sources(graph) == {"s": (pattern((G, equal(1)), (STAMP, less(10))),)}
    assert dict(found.unneeded).keys() == {"a", "p", "s"}


def test_the_same_again_changes_nothing() -> None:
    engine = Engine(straight())
    wanted: Pattern = pattern((G, equal(1)))
    assert engine.feedback("out", Feedback(Intent.ASSUMED, wanted))
    assert not engine.feedback("out", Feedback(Intent.ASSUMED, pattern((G, equal(1)), (V, equal(1)))))
    assert len(engine.guards.in_force()) == 2
    assert engine.feedback("out", assumed((G, OneOf((1, 2)))))
    assert [str(guard.pattern) for guard in engine.guards.in_force()] == ["g IN (1, 2)"] * 2
    assert engine.guards.relayed == {"s": [assumed((G, OneOf((1, 2))))]}


def test_the_ingest_gets_its_part_of_what_was_spread_over_the_whole() -> None:
    graph = Graph((scan(), *counting(Range(10, 10)), out("a")))
    placement = place(graph)
    (route,) = placement.routes()
    invariants = invariants_of(graph)
    found = spread_all(
        graph,
        [("out", pattern((G, equal(1)), (STAMP, less(20)))), ("out", pattern((G, equal(2)), (STAMP, at_most(10))))],
    )
    engine = Engine(placement.ingest, taps=("p",))
    engine.guards.restore(guards_of(placement.ingest, ("p",), found, invariants))
    assert {(guard.reader, guard.until) for guard in engine.guards.in_force()} == {("p", 10), ("tap:p", 10)}
    engine.push("s", page((1, 0, 1), (2, 0, 1), (3, 0, 1), (1, 0, 11)))
    engine.run()
    assert engine.take_results()["p"][0].rows.select("g", "__pane").sort("g").rows() == [(1, 10), (3, 0)]
    # the keyed stage knows of its input what the whole graph says
    keyed = Engine(placement.keyed)
    keyed.guards.use_invariants(invariants)
    keyed.use(placement.keyed)
    keyed.feedback("out", assumed((G, equal(1)), (STAMP, less(20))))
    assert keyed.guards.relayed[route.id][0].pattern.names == {"g", "__pane"}
    keyed.push(route.id, Punctuation(10))
    keyed.run()
    assert keyed.guards.in_force() == []  # no partial of theirs can come, and the next window ends at 20


def test_a_group_that_was_given_up_does_not_begin_again_for_a_new_reader() -> None:
    graph = Graph((scan(), *counting(Range(10, 10)), out("a")))
    engine = Engine(graph)
    engine.feedback("out", assumed((Column("n", Type.BIGINT), at_least(2))))
    engine.push("s", page((1, 0, 1), (1, 0, 2)))
    engine.run()
    engine.use(Graph((*graph.vertices, out("a", "other"))))
    assert engine.guards.relayed == {"s": [assumed((G, equal(1)), (STAMP, Between(0, 10, open_high=True)))]}
    engine.push("s", page((1, 0, 3), (1, 0, 11)))
    engine.push("s", Punctuation(END))
    engine.run()
    assert [row[:2] for row in (row for one in engine.take_results()["other"] for row in one.visible().rows())] == [
        (1, 1)
    ]


def test_an_impatient_join_asks_for_the_partners_of_what_it_has() -> None:
    side = Schema.of(g=Type.BIGINT, v=Type.INT)
    join = specs.Join("inner", side, side, ("h", "w"), ((G, G),), None, Extent(50), Extent(50), False)
    engine = Engine(Graph((scan("s"), scan("r"), Vertex("j", join, ("s", "r")), out("j"))))
    operator = engine.operators["j"]
    assert isinstance(operator, JoinOperator)
    operator.speaks, operator.is_impatient = True, True
    engine.push("r", page((1, 1, 1), (2, 2, 1)))
    engine.push("r", Punctuation(1))
    engine.push("r", page((2, 3, 2)))
    engine.push("s", page((2, 0, 1)))
    engine.step()
    assert engine.guards.relayed == {"r": [Feedback(Intent.DESIRED, pattern((G, equal(2))))]}
    engine.step()
    engine.step()
    assert [row for one in engine.take_results()["out"] for row in one.visible().rows()] == [(2, 0, 2, 2), (2, 0, 2, 3)]
    assert engine.network.queued("j") == 1  # the others wait, before the promise that was behind them
    engine.run()
    assert engine.bounds.reached["out"] == -(2**62)
