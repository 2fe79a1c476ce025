from __future__ import annotations

import re
from typing import Any

import msgspec
import polars as pl
import pytest

from headrace.model.events.event import (
    Absent,
    Alias,
    And,
    AnyOf,
    Aperiodic,
    AperiodicStar,
    Context,
    Event,
    Mode,
    Not,
    Or,
    Periodic,
    PeriodicStar,
    Plus,
    Primitive,
    Repetition,
    Retention,
    Sequence,
    Times,
    Within,
    primitives,
)
from headrace.model.events.growth import growing
from headrace.model.events.output import Count, Ended, Output, Pick, Started
from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.capabilities import due_of, held_by
from headrace.operators.events.conditions import Parts
from headrace.operators.events.conditions import Test as Condition
from headrace.operators.events.detect import Detect
from headrace.operators.events.occurrence import Row as Part
from headrace.operators.expressions.evaluate import compile_predicate
from headrace.testing.contract import Script, check_operator
from headrace.testing.oracle.rows import Row

SCHEMA = Schema.of(id=Type.STRING, car=Type.BIGINT, segment=Type.BIGINT)
A, B, C = (Primitive(name, port) for port, name in enumerate("abc"))
#: The history of the mode vectors.
VECTOR = "a1@1 a2@2 b1@3 a3@4 b2@5 b3@6"


def spec(
    event: Event, context: Context | Mode, *, conditions: tuple[Expr, ...] = (), key: str | None = None, ports: int = 3
) -> Detect:
    keys = () if key is None else (Column(key, Type.BIGINT),)
    names = [part.name for part in primitives(event)]
    outputs: list[Output] = [Pick(part, part, "id") for part in names]
    outputs += [Count(f"{part}s", part) for part in names]
    outputs += [Started("started"), Ended("ended")]
    context = Context(context) if isinstance(context, Mode) else context
    return Detect(event, context, (SCHEMA,) * ports, (keys,) * ports, conditions, tuple(outputs))


def pages(history: str) -> Script:
    """Tuples such as 'a1@3' or 'a1@3/7/104': a part, a number, an instant, perhaps a car and a segment."""
    found = re.findall(r"([abc])(\w+)@(\d+)(?:/(\d+))?(?:/(\d+))?", history)
    return [
        (
            "abc".index(part),
            page_of(SCHEMA, [{"id": part + number, "car": int(car or 1), "segment": int(segment or 1)}], [int(ts)]),
        )
        for part, number, ts, car, segment in found
    ]


def rows(detect: Detect, history: str, *, until: int | None = None) -> list[Row]:
    marks: Script = [] if until is None else [(port, Punctuation(until)) for port in range(len(detect.schemas))]
    return check_operator(detect, [*pages(history), *marks], ports=len(detect.schemas))


def found(event: Event, context: Context | Mode, history: str, **options: Any) -> list[str]:
    """Detections as 'a1 b1', in timestamp order; of several tuples of a part the newest with their number."""
    until = options.pop("until", None)
    result = []
    for row in sorted(rows(spec(event, context, **options), history, until=until), key=lambda row: row.ts):
        parts = [(row.values[part], row.values[f"{part}s"]) for part in "abc" if row.values.get(part)]
        result.append(" ".join(id_ if count == 1 else f"{id_}*{count}" for id_, count in parts))
    return result


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.UNRESTRICTED, ["a1 b1", "a2 b1", "a1 b2", "a2 b2", "a3 b2", "a1 b3", "a2 b3", "a3 b3"]),
        (Mode.RECENT, ["a2 b1", "a3 b2", "a3 b3"]),
        (Mode.PROXIMAL, ["a2 b1", "a3 b2"]),
        (Mode.CHRONICLE, ["a1 b1", "a2 b2", "a3 b3"]),
        (Mode.CONTINUOUS, ["a1 b1", "a2 b1", "a3 b2"]),
        (Mode.CUMULATIVE, ["a2*2 b1", "a3 b2"]),
    ],
)
def test_a_sequence_gives_the_vector_of_its_mode(mode: Mode, expected: list[str]) -> None:
    assert found(Sequence(A, B), mode, VECTOR, ports=2) == expected
    assert found(Within(Sequence(A, B), 100), mode, VECTOR, ports=2) == expected
    assert found(Within(Sequence(A, B), 100), mode, VECTOR, ports=2, key="car") == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.UNRESTRICTED, ["a1 b1", "a2 b1", "a3 b1", "a1 b2", "a2 b2", "a3 b2", "a1 b3", "a2 b3", "a3 b3"]),
        (Mode.RECENT, ["a2 b1", "a3 b1", "a3 b2", "a3 b3"]),
        (Mode.PROXIMAL, ["a2 b1", "a3 b2"]),
        (Mode.CHRONICLE, ["a1 b1", "a2 b2", "a3 b3"]),
        (Mode.CONTINUOUS, ["a1 b1", "a2 b1", "a3 b2"]),
        (Mode.CUMULATIVE, ["a2*2 b1", "a3 b2"]),
    ],
)
def test_and_gives_the_vector_of_its_mode(mode: Mode, expected: list[str]) -> None:
    assert found(And(A, B), mode, VECTOR, ports=2) == expected
    assert found(AnyOf(2, (A, B)), mode, VECTOR, ports=2) == expected


@pytest.mark.parametrize(
    ("history", "mode", "expected"),
    [
        ("a1@1 a3@3 a8@8 b4@4 b5@5 b6@6 b9@9", Mode.RECENT, ["a3 b4", "a3 b5", "a3 b6", "a8 b9"]),
        ("a1@1 a3@3 a8@8 b4@4 b5@5 b6@6 b9@9", Mode.CHRONICLE, ["a1 b4", "a3 b5", "a8 b9"]),
        ("a1@1 a5@5 a9@9 b2@2 b5@5 b6@6 b9@9 b10@10", Mode.RECENT, ["a1 b2", "a1 b5", "a5 b6", "a5 b9", "a9 b10"]),
        ("a1@1 a5@5 a9@9 b2@2 b5@5 b6@6 b9@9 b10@10", Mode.CHRONICLE, ["a1 b2", "a5 b6", "a9 b10"]),
        ("a1@1 a5@5 b5@5 b7@7", Mode.RECENT, ["a1 b5", "a5 b7"]),
        ("a1@1 b5@5 a5@5 b7@7", Mode.RECENT, ["a1 b5", "a5 b7"]),
    ],
)
def test_a_sequence_is_strict_whatever_the_order_of_arrival(history: str, mode: Mode, expected: list[str]) -> None:
    assert found(Sequence(A, B), mode, history, ports=2) == expected
    assert found(Within(Sequence(A, B), 100), mode, history, ports=2, key="segment") == expected


def test_interval_semantics_nests_and_point_semantics_does_not() -> None:
    inner = Sequence(B, Sequence(A, C))  # b lies inside (a; c), so it does not precede it
    assert found(inner, Mode.UNRESTRICTED, "a1@1 b1@3 c1@5") == []
    assert found(inner, Context(Mode.UNRESTRICTED, point=True), "a1@1 b1@3 c1@5") == ["a1 b1 c1"]
    assert found(inner, Mode.UNRESTRICTED, "b1@1 a1@3 c1@5") == ["a1 b1 c1"]


def test_a_periodic_that_nothing_limits_stops_with_the_last_tuple_although_others_still_happen() -> None:
    assert found(Plus(Periodic(A, 1, C), 1), Mode.CONTINUOUS, "a1@3 a2@5") == ["a1", "a1"]


def test_conditions_compare_values_as_columns_do() -> None:
    schema = Schema.of(x=Type.DOUBLE, s=Type.STRING)
    values = [None, float("nan"), -0.0, 0.0, 1.5, float("inf"), float("-inf")]
    texts = [None, "", "a", "b", "\u00e9", "z", "\U0001f600"]
    parts = Parts(And(A, B), (schema, schema), frozenset({"a.x", "b.x", "a.s", "b.s"}))
    for name, type_, drawn in (("x", Type.DOUBLE, values), ("s", Type.STRING, texts)):
        pairs = [(one, other) for one in drawn for other in drawn]
        rows = [
            tuple(Part(i, 0, (v, None) if name == "x" else (None, v)) for i, v in enumerate(pair)) for pair in pairs
        ]
        frame = pl.DataFrame({f"a.{name}": [p[0] for p in pairs], f"b.{name}": [p[1] for p in pairs]})
        for sign in ("=", "<>", "<", "<=", ">", ">="):
            term = Call(sign, (Column(f"a.{name}", type_), Column(f"b.{name}", type_)), Type.BOOLEAN)
            expected = frame.with_columns(compile_predicate(term).alias("holds"))["holds"].to_list()
            assert Condition(parts, [term])(rows) == expected


def test_what_the_latest_replaced_does_not_come_back_when_it_is_used_up() -> None:
    assert found(Sequence(A, B), Mode.PROXIMAL, "a1@1 a2@2 b1@3 b2@4", ports=2) == ["a2 b1"]
    assert found(Within(Sequence(A, B), 100), Mode.PROXIMAL, "a1@1 a2@2 b1@3 b2@4", ports=2, key="car") == ["a2 b1"]


@pytest.mark.parametrize("event", [And(A, B), AnyOf(2, (A, B))], ids=["and", "any"])
def test_proximal_uses_up_the_newer_of_a_pair_as_well(event: Event) -> None:
    assert found(event, Mode.PROXIMAL, "a1@1 b1@2 a2@3 b2@4 b3@5", ports=2) == ["a1 b1", "a2 b2"]
    assert found(event, Mode.PROXIMAL, "b1@1 a1@2 b2@3", ports=2) == ["a1 b1"]
    # a2 is used up by b1 that waits, and a1, which it replaced, does not come back for b2
    same = equals("a.segment", "b.segment")
    assert found(event, Mode.PROXIMAL, "a1@1/1/7 b1@2/1/8 a2@3/1/8 b2@4/1/7 b3@5/1/8", ports=2, conditions=(same,)) == [
        "a2 b1"
    ]


def test_proximal_any_uses_up_all_that_it_took() -> None:
    assert found(AnyOf(3, (A, B, C)), Mode.PROXIMAL, "a1@1 b1@2 c1@3 a2@4 b2@5 c2@6") == ["a1 b1 c1", "a2 b2 c2"]
    assert found(AnyOf(2, (A, B, C)), Mode.PROXIMAL, "a1@1 b1@2 c1@3 a2@4") == ["a1 b1", "a2 c1"]


def test_a_part_that_lasts_counts_from_its_beginning() -> None:
    """A tuple's `since` is when it began: b1 is [3, 6] here, a1 [1, 2]."""
    schema = Schema.of(id=Type.STRING, since=Type.TIMESTAMP)
    a, b = (Primitive(name, port, start="since") for port, name in enumerate("ab"))

    def told(event: Event, *, point: bool, b_since: int) -> list[tuple[int, int]]:
        detect = Detect(
            event, Context(Mode.CHRONICLE, point=point), (schema,) * 2, ((),) * 2, (), (Started("started"),)
        )
        tuples = [(0, "a1", 1, 2), (1, "b1", b_since, 6)]
        script = [(port, page_of(schema, [{"id": id_, "since": since}], [ts])) for port, id_, since, ts in tuples]
        return [(row.values["started"], row.ts) for row in check_operator(detect, script, ports=2)]

    assert told(Sequence(a, b), point=False, b_since=3) == [(1, 6)]
    assert told(Sequence(a, b), point=False, b_since=2) == []
    assert told(Sequence(a, b), point=True, b_since=2) == [(1, 6)]
    assert told(And(a, b), point=False, b_since=0) == [(0, 6)]
    assert told(Within(And(a, b), 5), point=False, b_since=0) == []
    assert told(Within(And(a, b), 5), point=True, b_since=0) == []
    assert told(Within(Sequence(a, Primitive("b", 1)), 5), point=False, b_since=0) == [(1, 6)]  # on columns
    assert told(Within(Sequence(a, Primitive("b", 1)), 4), point=False, b_since=0) == []


def test_what_lasted_too_long_replaces_nothing() -> None:
    schema = Schema.of(id=Type.STRING, since=Type.TIMESTAMP)
    a, b = Primitive("a", 0, start="since"), Primitive("b", 1)
    tuples = [(0, "a1", 4, 4), (0, "a2", 0, 5), (1, "b1", 6, 6)]
    script = [(port, page_of(schema, [{"id": id_, "since": since}], [ts])) for port, id_, since, ts in tuples]
    for event in (Within(Sequence(a, b), 3), Within(And(a, b), 3)):
        detect = Detect(event, Context(Mode.RECENT), (schema,) * 2, ((),) * 2, (), (Pick("id", "a", "id"),))
        assert [row.values["id"] for row in check_operator(detect, script, ports=2)] == ["a1"]


def test_an_occurrence_lasts_from_its_first_constituent_to_its_last() -> None:
    (row,) = rows(spec(Sequence(A, B), Mode.RECENT, ports=2), "a1@600 b1@660")
    assert (row.ts, row.values["started"], row.values["ended"]) == (660, 600, 660)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.UNRESTRICTED, ["a2 c1", "a2 c2", "a3 c2"]),
        (Mode.RECENT, ["a2 c1", "a3 c2"]),
        (Mode.CHRONICLE, ["a2 c1", "a3 c2"]),
        (Mode.CONTINUOUS, ["a2 c1", "a3 c2"]),
        (Mode.CUMULATIVE, ["a2 c1", "a3 c2"]),
        (Mode.PROXIMAL, ["a2 c1", "a3 c2"]),
    ],
)
def test_not_wants_nothing_between(mode: Mode, expected: list[str]) -> None:
    assert found(Not(B, A, C), mode, "a1@1 b1@2 a2@3 c1@4 a3@5 c2@6") == expected


def test_the_interval_of_not_is_closed() -> None:
    for history in ("a1@1 b1@1 c1@3", "a1@1 b1@3 c1@3", "b1@1 c1@3 a1@1"):
        assert found(Not(B, A, C), Mode.UNRESTRICTED, history) == []


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.UNRESTRICTED, ["a1 b1", "a1 b2", "a2 b2", "a3 b4"]),
        (Mode.RECENT, ["a1 b1", "a2 b2", "a3 b4"]),
        (Mode.PROXIMAL, ["a1 b1", "a2 b2", "a3 b4"]),
        (Mode.CHRONICLE, ["a1 b1", "a1 b2", "a2 b3", "a2 b4"]),
        (Mode.CONTINUOUS, ["a1 b1", "a1 b2", "a2 b2", "a3 b4"]),
        (Mode.CUMULATIVE, ["a1 b1", "a2*2 b2", "a3 b4"]),
    ],
)
def test_aperiodic_gives_each_middle_before_the_end(mode: Mode, expected: list[str]) -> None:
    assert found(Aperiodic(A, B, C), mode, "a1@1 b1@2 a2@3 b2@4 c1@5 b3@6 a3@7 b4@8") == expected


@pytest.mark.parametrize("key", [None, "car"])
def test_a_repetition_is_all_tuples_between_a_start_and_the_next_end(key: str | None) -> None:
    history = "a1@1 b1@2 a2@3 b2@4 b3@5 c1@6 b4@7 c2@8 a3@9 c3@10 b5@11 a4@12 b6@13 c4@30"
    expected = {
        Mode.CONTINUOUS: ["a1 b3*3 c1", "a2 b3*2 c1"],
        Mode.RECENT: ["a2 b3*2 c1"],
        Mode.PROXIMAL: ["a2 b3*2 c1"],
        Mode.CHRONICLE: ["a1 b3*3 c1", "a2 b4*3 c2"],
    }
    for mode, detected in expected.items():
        assert found(Within(Repetition(A, (B,), ((1, None),), C), 10), mode, history, key=key) == detected, mode
    optional = Within(Repetition(A, (B,), ((0, 1),), C), 20)
    assert [row.values["c"] for row in rows(spec(optional, Mode.RECENT, key=key), history)] == ["c3", "c4"]


def test_aperiodic_star_collects_until_the_end_and_says_nothing_if_there_was_nothing() -> None:
    history = "a1@1 b1@2 b2@3 a2@4 b3@5 c1@6 a3@7 c2@8"
    assert found(AperiodicStar(A, B, C), Mode.CONTINUOUS, history) == ["a1 b3*3 c1", "a2 b3 c1"]
    assert found(AperiodicStar(A, B, C), Mode.CUMULATIVE, history) == ["a2*2 b3*3 c1"]
    assert found(AperiodicStar(A, B, C), Mode.RECENT, history) == ["a2 b3 c1"]
    assert found(AperiodicStar(A, B, C), Mode.CHRONICLE, history) == ["a1 b3*3 c1", "a2 b3*1 c2".replace("*1", "")]


def test_periodic_ticks_until_the_end() -> None:
    ticks = rows(spec(Periodic(A, 10, C), Mode.RECENT), "a1@0 c1@35", until=100)
    assert [row.ts for row in ticks] == [10, 20, 30]
    assert [row.ts for row in rows(spec(Periodic(A, 10, C), Mode.RECENT), "a1@0 c1@30", until=100)] == [10, 20]
    assert [row.ts for row in rows(spec(Periodic(A, 10, C), Mode.RECENT), "a1@0", until=25)] == [10, 20]
    assert [row.ts for row in rows(spec(Within(Periodic(A, 10, C), 40), Mode.RECENT), "a1@0")] == [10, 20, 30, 40]
    assert found(PeriodicStar(A, 10, C), Mode.RECENT, "a1@0 c1@10 a2@20 c2@31") == ["a2 c2"]


def test_plus_is_a_point_in_time() -> None:
    assert [(row.ts, row.values["a"]) for row in rows(spec(Plus(A, 5), Mode.RECENT), "a1@1 a2@3")] == [
        (6, "a1"),
        (8, "a2"),
    ]
    again = Primitive("b", 0)
    unfixed = Not(Primitive("c", 2), A, Plus(again, 15))
    detect = Detect(unfixed, Context(Mode.CHRONICLE), (SCHEMA,) * 3, ((),) * 3, (), (Pick("id", "a", "id"),))
    assert [(row.ts, row.values["id"]) for row in rows(detect, "a1@0 a2@100 c1@110")] == [(15, "a1")]


def test_absence_is_noticed_without_another_tuple() -> None:
    assert found(Absent(B, A, 10), Mode.CHRONICLE, "a1@0 b1@5 a2@20", ports=2) == ["a2"]
    assert found(Absent(B, A, 10), Mode.CHRONICLE, "a1@0 b1@10", ports=2) == []
    assert found(Absent(B, A, 10), Mode.RECENT, "a1@0 a2@5 a3@15", ports=2) == ["a2", "a3"]
    operator = spec(Absent(B, A, 10), Mode.RECENT, ports=2).build()
    for port in (0, 1):
        for element in (*(page for at, page in pages("a1@0") if at == port), Punctuation(5)):
            list(operator.on_element(port, element))
    assert due_of(operator) == 11


def test_times_slides_or_starts_anew() -> None:
    history = "a1@1 a2@2 a3@3 a4@4 a5@9"
    assert found(Times(2, A), Mode.RECENT, history) == ["a2*2", "a3*2", "a4*2", "a5*2"]
    assert found(Times(2, A), Mode.CHRONICLE, history) == ["a2*2", "a4*2"]
    assert found(Within(Times(2, A), 3), Mode.RECENT, history) == ["a2*2", "a3*2", "a4*2"]


def test_or_and_any_take_what_there_is() -> None:
    assert found(Or(A, B), Mode.RECENT, "a1@1 b1@2", ports=2) == ["a1", "b1"]
    assert found(AnyOf(2, (A, B, C)), Mode.CHRONICLE, "a1@1 a2@2 c1@3 b1@4 c2@5") == ["a1 c1", "a2 b1"]
    assert found(AnyOf(3, (A, B, C)), Mode.CONTINUOUS, "a1@1 b1@2 c1@3 a2@4") == ["a1 b1 c1", "a2 b1 c1"]
    assert found(Sequence(Or(A, B), C), Mode.CHRONICLE, "a1@1 b1@2 c1@3 c2@4") == ["a1 c1", "b1 c2"]


def test_a_partition_keeps_cars_apart() -> None:
    """A new immobile car 4 does not overwrite waiting car 1; only a later event of car 1 does."""
    same = equals("a.segment", "b.segment")
    history = "a1@1/1/104 a4@2/4/207 b1@3/9/104"
    assert found(Sequence(A, B), Mode.RECENT, history, conditions=(same,), ports=2) == []
    by_car = Context(Mode.RECENT, (Retention("a", ("car",)),))
    assert found(Sequence(A, B), by_car, history, conditions=(same,), ports=2) == ["a1 b1"]
    assert found(Sequence(A, B), by_car, "a1@1/1/104 a5@2/1/207 b1@3/9/104", conditions=(same,), ports=2) == []


def test_keep_and_age_are_windows_over_what_waits() -> None:
    def keep(mode: Mode, keep: int | None = None, age: int | None = None) -> Context:
        return Context(mode, (Retention("a", (), keep, age),))

    assert found(Sequence(A, B), keep(Mode.RECENT, 2), VECTOR, ports=2) == [
        "a1 b1",
        "a2 b1",
        "a2 b2",
        "a3 b2",
        "a2 b3",
        "a3 b3",
    ]
    assert found(Sequence(A, B), keep(Mode.CHRONICLE, 1), VECTOR, ports=2) == ["a2 b1", "a3 b2"]
    assert found(Sequence(A, B), keep(Mode.UNRESTRICTED, age=1), VECTOR, ports=2) == ["a2 b1", "a3 b2"]
    assert found(Sequence(A, B), keep(Mode.CONTINUOUS, 1), VECTOR, ports=2) == ["a2 b1", "a3 b2"]


def test_composite_operands_are_kept_by_key_number_and_age() -> None:
    """Two trips of cars 1 and 4 wait for c; without BY the newer one replaces the other."""
    trips, history = Sequence(Alias(Sequence(A, B), "trip"), C), "a1@1/1/7 b1@2/1/7 a2@3/4/8 b2@4/4/8 c1@9/0/0"

    def kept(mode: Mode, *retention: Any) -> list[str]:
        return found(trips, Context(mode, (Retention("trip", *retention),)), history)

    assert found(trips, Mode.RECENT, history) == ["a2 b2 c1"]
    assert kept(Mode.RECENT, ("a.car",)) == ["a1 b1 c1", "a2 b2 c1"]
    assert kept(Mode.UNRESTRICTED, ("a.car",), 1, 5) == ["a1 b2 c1", "a2 b2 c1"]
    assert kept(Mode.UNRESTRICTED, ("b.car",), 1, 5) == ["a2 b2 c1"]
    assert kept(Mode.CHRONICLE, (), 1) == ["a2 b2 c1"]
    assert list(growing(trips, Context(Mode.CHRONICLE, (Retention("trip", (), 3),)))) == [
        "CONTEXT CHRONICLE keeps every occurrence of a until it is used; add WITHIN, KEEP or AGE"
    ]


def test_conditions_are_tested_while_pairing() -> None:
    """The example of two slow cars, one in another segment and one in another lane (here: the parity of the car)."""
    same = equals("a.segment", "b.segment")
    other = Call("<>", (Column("a.car", Type.BIGINT), Column("b.car", Type.BIGINT)), Type.BOOLEAN)
    history = "a1@1000/1/104 b2@1003/2/109 b5@1004/5/104"
    assert found(Sequence(A, B), Mode.RECENT, history, ports=2) == ["a1 b2", "a1 b5"]
    assert found(Sequence(A, B), Mode.RECENT, history, ports=2, conditions=(same, other)) == ["a1 b5"]
    apart = Call("<", (Column("b.car", Type.BIGINT), Column("a.car", Type.BIGINT)), Type.BOOLEAN)
    assert found(Sequence(A, B), Mode.RECENT, history, ports=2, conditions=(same, apart)) == []
    # chronicle: the earliest that matches, and it is used up only by a match
    assert found(
        Sequence(A, B), Mode.CHRONICLE, "a1@1/1/1 a2@2/1/2 b1@3/1/2 b2@4/1/1", ports=2, conditions=(same,)
    ) == ["a2 b1", "a1 b2"]


def test_masks_give_the_same_detections_as_conditions_on_what_was_detected_without_restriction() -> None:
    history = "a1@1/1/104 a2@2/2/109 b1@3/3/104 a3@4/4/104 b2@5/5/109 b3@6/6/104"
    slow = Call("<", (Column("a.car", Type.BIGINT), Literal(4, Type.BIGINT)), Type.BOOLEAN)
    same = equals("a.segment", "b.segment")
    detect = Detect(
        Sequence(A, B), Context(Mode.UNRESTRICTED), (SCHEMA,) * 2, ((),) * 2, (),
        tuple(Pick(f"{part}.{column}", part, column) for part in "ab" for column in SCHEMA.names),
    )  # fmt: skip
    every = rows(detect, history)
    wanted = [row for row in every if row.values["a.car"] < 4 and row.values["a.segment"] == row.values["b.segment"]]
    masked = msgspec.structs.replace(detect, event=Sequence(Primitive("a", 0, slow), B), conditions=(same,))
    keyed = msgspec.structs.replace(
        detect, event=Sequence(Primitive("a", 0, slow), B), keys=((Column("segment", Type.BIGINT),),) * 2
    )
    for pushed in (masked, keyed):
        assert sorted(map(repr, rows(pushed, history))) == sorted(map(repr, wanted))
    assert 0 < len(wanted) < len(every)


def test_keys_divide_the_history_and_null_belongs_to_no_part_of_it() -> None:
    history = "a1@1/1 a2@2/2 b1@3/1 b2@4/2"
    assert found(Sequence(A, B), Mode.RECENT, history, key="car", ports=2) == ["a1 b1", "a2 b2"]
    script = [(port, page_of(SCHEMA, [{"id": "x", "car": None, "segment": 1}], [ts])) for port, ts in ((0, 1), (1, 2))]
    assert check_operator(spec(Sequence(A, B), Mode.RECENT, key="car", ports=2), script, ports=2) == []
    assert check_operator(spec(Within(Sequence(A, B), 9), Mode.RECENT, key="car", ports=2), script, ports=2) == []


def test_a_warning_names_what_no_bound_limits() -> None:
    def warned(event: Event, context: Context) -> list[str]:
        return [text.split(";")[0] for text in growing(event, context)]

    assert warned(Sequence(A, B), Context(Mode.RECENT)) == []
    assert warned(Sequence(A, B), Context(Mode.UNRESTRICTED)) == [
        "CONTEXT UNRESTRICTED keeps every occurrence of a forever"
    ]
    assert (
        warned(And(A, Sequence(B, C)), Context(Mode.CHRONICLE))[0]
        == "CONTEXT CHRONICLE keeps every occurrence of a until it is used"
    )
    assert warned(Within(And(A, Sequence(B, C)), 5), Context(Mode.CHRONICLE)) == []
    assert warned(Within(Plus(Sequence(A, B), 3), 5), Context(Mode.CHRONICLE)) == [
        "CONTEXT CHRONICLE keeps every occurrence of a until it is used"
    ]
    assert warned(Sequence(A, B), Context(Mode.CHRONICLE, (Retention("a", keep=3),))) == []
    assert warned(Or(A, Times(3, B)), Context(Mode.UNRESTRICTED)) == []


def test_a_spec_can_be_written_and_read() -> None:
    detect = spec(
        Within(Not(B, A, Plus(C, 3)), 9),
        Context(Mode.RECENT, (Retention("a", ("car",), 3),)),
        conditions=(equals("a.car", "c.car"),),
    )
    assert msgspec.json.decode(msgspec.json.encode(detect), type=Detect) == detect
    assert hash(detect) == hash(msgspec.json.decode(msgspec.json.encode(detect), type=Detect))


def test_nothing_is_kept_longer_than_it_can_be_used() -> None:
    operator = spec(Within(AperiodicStar(A, B, C), 10), Mode.UNRESTRICTED, key="car").build()
    for ts in range(0, 10_000, 100):
        for port, page in pages(f"a1@{ts}/{ts} b1@{ts + 1}/{ts} c1@{ts + 2}/{ts}"):
            assert isinstance(page, Page)
            list(operator.on_page(port, page))
        for port in range(3):
            list(operator.on_punctuation(port, Punctuation(ts + 50)))
    for port in range(3):
        list(operator.on_punctuation(port, Punctuation(END)))
    assert held_by(operator) < 10


def equals(one: str, other: str) -> Expr:
    return Call("=", (Column(one, Type.BIGINT), Column(other, Type.BIGINT)), Type.BOOLEAN)
