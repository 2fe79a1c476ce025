from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.repeats import distinct
from headrace.operators.repeats.distinct import Distinct, DistinctOperator

SCHEMA = Schema.of(k=Type.STRING, v=Type.DOUBLE)
COLUMNS = (Column("k", Type.STRING), Column("v", Type.DOUBLE))
Value = tuple[str | None, float | None]
Row = tuple[int, Value]


def page(rows: list[Row]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, (k, v) in rows], [ts for ts, _ in rows])


def rows_of(emitted: list[Element]) -> list[Row]:
    return [(ts, (k, v)) for out in emitted if isinstance(out, Page) for k, v, ts in out.rows.rows()]


def oracle(rows: list[Row], span: int) -> list[Row]:
    last: dict[Value, int] = {}
    out = []
    for ts, value in sorted(rows, key=lambda row: row[0]):
        if value not in last or ts - last[value] > span:
            out.append((ts, value))
        last[value] = ts
    return out


def test_equal_tuples_in_a_chain_of_small_gaps_come_out_once() -> None:
    operator = Distinct(COLUMNS, 10).build()
    x: Value = ("x", None)
    operator.on_page(0, page([(20, x), (0, x), (10, x), (31, x), (10, ("y", 1.0)), (10, ("y", 1.0))]))
    assert rows_of(list(operator.on_punctuation(0, Punctuation(20)))) == [(0, x), (10, ("y", 1.0))]
    assert rows_of(list(operator.on_punctuation(0, Punctuation(END)))) == [(31, x)]


def test_only_visible_columns_and_the_timestamp_go_out_and_the_promise_follows() -> None:
    operator = Distinct(COLUMNS, 0).build()
    rows = page([(1, ("x", 1.0))]).rows
    operator.on_page(0, Page(rows.with_columns(rows[TS].alias(SEQ))))
    out = list(operator.on_punctuation(0, Punctuation(2)))
    assert isinstance(out[0], Page)
    assert out[0].rows.columns == ["k", "v", TS]
    assert out[1:] == [Punctuation(2)]
    assert operator.held() == 0


def test_values_are_forgotten_when_the_bound_has_left_them_behind() -> None:
    operator = Distinct(COLUMNS, 10).build()
    operator.on_page(0, page([(1, ("x", 1.0)), (5, ("y", 1.0))]))
    operator.on_punctuation(0, Punctuation(6))
    assert operator.held() == 2
    assert list(operator.on_punctuation(0, Punctuation(15))) == [Punctuation(15)]
    assert operator.held() == 2
    operator.on_punctuation(0, Punctuation(16))
    assert operator.state() == {}


def test_nothing_new_rewrites_nothing() -> None:
    operator = Distinct(COLUMNS, 100).build()
    operator.on_page(0, page([(i, (str(i), None)) for i in range(64)]))
    operator.on_punctuation(0, Punctuation(60))
    before = dict(operator.state())
    operator.on_punctuation(0, Punctuation(60))
    assert {name: id(chunk) for name, chunk in operator.state().items()} == {
        name: id(chunk) for name, chunk in before.items()
    }
    operator.on_page(0, page([(60, ("0", None))]))
    operator.on_punctuation(0, Punctuation(60))
    big = [name for name in before if name.startswith("seen")]
    assert len(big) == 1
    assert operator.state()[big[0]] is before[big[0]]


def test_colliding_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "hash_columns", lambda columns: hash_columns(columns) % 2)
    operator = Distinct(COLUMNS, 1000).build()
    rows: list[Row] = [(ts, (str(ts % 7), None)) for ts in range(40)]
    got = []
    for row in rows:
        operator.on_page(0, page([row]))
        got += rows_of(list(operator.on_punctuation(0, Punctuation(row[0] + 1))))
    assert got == oracle(rows, 1000)


def test_the_spec_survives_json() -> None:
    spec = Distinct(COLUMNS, 5)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Distinct) == spec
    assert spec.partition_by(0) == COLUMNS
    assert not spec.is_stateless


VALUES = st.tuples(st.none() | st.sampled_from(["", "é", "b"]), st.none() | st.sampled_from([0.5, -1.0]))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(0, 12))
def test_cutting_pages_and_restarting_anywhere_change_nothing(data: st.DataObject, span: int) -> None:
    bounds = sorted(data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=5)))
    operator = Distinct(COLUMNS, span).build()
    fed: list[Row] = []
    got: list[Row] = []
    low = 0
    for bound in [*bounds, END]:
        batch = data.draw(st.lists(st.tuples(st.integers(low, low + 20), VALUES), max_size=12))
        fed += batch
        start = 0
        while start < len(batch):
            size = data.draw(st.integers(1, len(batch) - start))
            assert list(operator.on_page(0, page(batch[start : start + size]))) == []
            start += size
            operator = maybe_restart(operator, Distinct(COLUMNS, span), data)
        emitted = rows_of(list(operator.on_punctuation(0, Punctuation(bound))))
        assert all(ts < bound for ts, _ in emitted)
        got += emitted
        want = [row for row in oracle(fed, span) if row[0] < bound]
        assert sorted(got, key=repr) == sorted(want, key=repr)
        operator = maybe_restart(operator, Distinct(COLUMNS, span), data)
        low = bound
    assert operator.held() == 0


def maybe_restart(operator: DistinctOperator, spec: Distinct, data: st.DataObject) -> DistinctOperator:
    if not data.draw(st.booleans()):
        return operator
    saved = operator.state()
    assert all(operator.state()[name] is chunk for name, chunk in saved.items())
    fresh = spec.build()
    fresh.restore(saved)
    return fresh
