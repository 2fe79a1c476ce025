"""Changes of outer joins: the oracle's, however pages are cut; together they make the rows of the windowed join."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from headrace.model.changelog import DELETE, INSERT
from headrace.model.expressions.expression import Call, Column, Expr
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import TS, Schema
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.joins.join_changes import JoinChanges
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer, as_multiset
from headrace.testing.oracle.rows import Row

pytestmark = pytest.mark.slow

LEFT = Schema.of(k=Type.INT, s=Type.STRING, v=Type.BIGINT)
RIGHT = Schema.of(k=Type.INT, s=Type.STRING, w=Type.BIGINT)
NAMES = ("rk", "rs", "w")
KEYS: dict[str, tuple[tuple[Expr, Expr], ...]] = {
    "none": (),
    "integer": ((Column("k", Type.INT), Column("k", Type.INT)),),
    "both": ((Column("k", Type.INT), Column("k", Type.INT)), (Column("s", Type.STRING), Column("s", Type.STRING))),
}
SMALLER = Call("<", (Column("v", Type.BIGINT), Column("w", Type.BIGINT)), Type.BOOLEAN)


def rows(number: str) -> st.SearchStrategy[list[tuple[int, dict[str, Any]]]]:
    key, text = st.sampled_from([1, 1, 2, None]), st.sampled_from(["a", "b"])
    values = st.fixed_dictionaries({"k": key, "s": text, number: st.integers(0, 3)})
    return st.lists(st.tuples(st.integers(0, 12), values), max_size=7).map(
        lambda drawn: sorted(drawn, key=lambda r: r[0])
    )


def page(schema: Schema, fed: list[tuple[int, dict[str, Any]]]) -> Page:
    return page_of(schema, [row for _, row in fed], [ts for ts, _ in fed])


def plan(spec: JoinChanges, change: str) -> nodes.Join:
    sides = nodes.Scan("l", LEFT), nodes.Scan("r", RIGHT)
    extents = spec.left_extent, spec.right_extent
    return nodes.Join(*sides, spec.kind, spec.keys, spec.residual, *extents, NAMES, change=change)


@pytest.mark.parametrize("kind", ["left", "right", "full"])
@pytest.mark.parametrize("keys", KEYS)
def test_it_gives_what_the_oracle_gives(kind: Any, keys: str) -> None:
    @settings(deadline=None, max_examples=12)
    @given(rows("v"), rows("w"), st.sampled_from([1, 3, 100]), st.booleans(), st.booleans())
    def check(left: Any, right: Any, span: int, is_tested: bool, is_right_first: bool) -> None:
        residual = SMALLER if is_tested else None
        spec = JoinChanges(kind, LEFT, RIGHT, NAMES, KEYS[keys], residual, Extent(span), Extent(span), expiry=False)
        streams = {"l": [Row(ts, row) for ts, row in left], "r": [Row(ts, row) for ts, row in right]}
        expected = answer(plan(spec, "change"), streams)
        half = len(left) // 2
        script: list[tuple[int, Any]] = [
            (0, page(LEFT, left[:half])),
            (0, Punctuation(left[half][0] if left else 0)),
            (1, page(RIGHT, right)),
            (1, Punctuation(5 if right and right[-1][0] < 5 else right[0][0] if right else 5)),
            (0, page(LEFT, left[half:])),
        ]
        found = check_operator(spec, script if not is_right_first else [script[2], *script[:2], *script[3:]], ports=2)
        assert as_multiset(found) == as_multiset(expected)
        final = answer(plan(spec, ""), streams)
        assert table(found) == Counter(values(row.values) for row in final)

    check()


def table(changes: list[Row]) -> Counter[Any]:
    """Apply changes; a row is deleted only while it is there."""
    there: Counter[Any] = Counter()
    for change in changes:
        row = values({name: value for name, value in change.values.items() if name != "change"})
        there[row] += {INSERT: 1, DELETE: -1}[change.values["change"]]
        assert there[row] >= 0
    return +there


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.items())


def test_a_row_is_taken_back_once_and_only_if_it_came_without_a_partner() -> None:
    spec = JoinChanges("left", LEFT, RIGHT, NAMES, KEYS["integer"], None, Extent(10), Extent(10), expiry=False)
    operator: Any = spec.build()

    def step(bound: int) -> list[tuple[Any, ...]]:
        elements = [*operator.on_punctuation(0, Punctuation(bound)), *operator.on_punctuation(1, Punctuation(bound))]
        frames = [element.rows for element in elements if isinstance(element, Page)]
        return [row for frame in frames for row in frame.select(TS, "v", "w", "change").rows()]

    operator.on_page(0, page(LEFT, [(1, {"k": 1, "s": "", "v": 1}), (2, {"k": None, "s": "", "v": 2})]))
    assert step(3) == [(1, 1, None, INSERT), (2, 2, None, INSERT)]
    operator.on_page(1, page(RIGHT, [(4, {"k": 1, "s": "", "w": 7})]))
    operator.on_page(0, page(LEFT, [(4, {"k": 1, "s": "", "v": 3})]))
    assert step(5) == [(4, 1, None, DELETE), (4, 1, 7, INSERT), (4, 3, 7, INSERT)]
    operator.on_page(1, page(RIGHT, [(6, {"k": 1, "s": "", "w": 8})]))
    assert sorted(step(7)) == [(6, 1, 8, INSERT), (6, 3, 8, INSERT)]
    assert operator.held() == 4
    assert step(100) == []
    assert operator.held() == 0, "what nothing can join any more is forgotten"
    operator.on_page(1, page(RIGHT, [(100, {"k": 1, "s": "", "w": 9})]))
    assert step(101) == []


def test_many_keys_make_several_chunks_and_few_copies() -> None:
    spec = JoinChanges("full", LEFT, RIGHT, NAMES, KEYS["integer"], None, Extent(1000), Extent(1000), expiry=False)
    operator: Any = spec.build()
    inserted, deleted = 0, 0
    for turn in range(30):
        fed = [(turn, {"k": turn * 50 + i, "s": "", "v": i}) for i in range(50)]
        operator.on_page(0, page(LEFT, fed))
        late = [(turn, {"k": (turn - 5) * 50 + i, "s": "", "w": i}) for i in range(50)]
        operator.on_page(1, page(RIGHT, late))
        for port in (0, 1):
            for element in operator.on_punctuation(port, Punctuation(turn + 1)):
                if isinstance(element, Page):
                    kinds = element.rows["change"].value_counts()
                    counted = dict(kinds.iter_rows())
                    inserted, deleted = inserted + counted.get(INSERT, 0), deleted + counted.get(DELETE, 0)
        restored: Any = spec.build()
        restored.restore(operator.state())
        operator = restored
    # 30 turns of 50 left rows that wait 5 turns, 5 turns of right rows that find nobody, 25 turns of pairs
    assert (inserted, deleted) == (30 * 50 + 5 * 50 + 25 * 50, 25 * 50)


def test_the_spec_is_kept_in_checkpoints() -> None:
    import msgspec

    spec = JoinChanges("full", LEFT, RIGHT, NAMES, KEYS["both"], SMALLER, Extent(3), Extent(4), expiry=False)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=JoinChanges) == spec
    assert structs.replace(spec, change="change_1") != spec
