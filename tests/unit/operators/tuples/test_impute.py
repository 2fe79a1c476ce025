"""IMPUTE: what is missing is looked up, once for each key of a page, and nothing else is."""

from __future__ import annotations

import sys
import types

import polars as pl
import pytest

from headrace.errors import OperatorFault
from headrace.model.expressions.expression import Column
from headrace.model.page import Page
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.types import Type
from headrace.operators.tuples.archives import PythonFunction, StoredRows
from headrace.operators.tuples.impute import Impute
from headrace.testing.contract import check_operator

K, V = Column("k", Type.INT), Column("v", Type.DOUBLE)


def page(*rows: tuple[int | None, float | None]) -> Page:
    """Rows are (k, v), stamped and numbered by their place."""
    count = range(len(rows))
    columns = {"k": [k for k, _ in rows], "v": [v for _, v in rows], TS: list(count), SEQ: list(count)}
    return Page(pl.DataFrame(columns, schema={"k": pl.Int32, "v": pl.Float64, TS: pl.Int64, SEQ: pl.Int64}))


def stored(*rows: tuple[int | None, float | None]) -> StoredRows:
    frame = pl.DataFrame(
        {"key": [k for k, _ in rows], "mean": [v for _, v in rows]}, schema={"key": pl.Int32, "mean": pl.Float64}
    )
    return StoredRows(Page(frame).encode(), Schema.of(key=Type.INT, mean=Type.DOUBLE), ("key",), "mean")


class Archive:
    """A module with functions that count how often they are asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def ten_times(self, key: int) -> float | None:
        self.asked.append(key)
        return None if key > 5 else 10.0 * key

    def failing(self, key: int) -> float:
        raise LookupError(f"no {key}")

    def lying(self, key: int) -> str:
        return "much"


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Archive:
    made, module = Archive(), types.ModuleType("some_archive")
    for name in ("ten_times", "failing", "lying"):
        setattr(module, name, getattr(made, name))
    module.constant = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_archive", module)
    return made


def imputed(spec: Impute, rows: Page) -> list[float | None]:
    (out,) = spec.build().on_page(0, rows)
    assert isinstance(out, Page)
    assert out.rows.columns == ["k", "v", "w", TS, SEQ]
    return out.rows["w"].to_list()


def test_only_what_is_missing_is_taken_from_the_first_row_that_has_a_value() -> None:
    spec = Impute("w", V, (K,), stored((1, None), (1, 5.0), (1, 6.0), (2, 7.0), (None, 8.0)))
    rows = check_operator(spec, [(0, page((1, 1.5), (1, None), (2, None), (3, None), (None, None)))])
    assert [row.values["w"] for row in rows] == [1.5, 5.0, 7.0, None, None]
    assert imputed(spec, page((1, 2.0))) == [2.0]


def test_a_function_may_give_whole_numbers_for_a_double(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["some_archive"], "ten_times", lambda key: key)
    assert imputed(Impute("w", V, (K,), PythonFunction("some_archive:ten_times")), page((1, None), (2, None))) == [
        1.0,
        2.0,
    ]


def test_an_empty_table_has_nothing() -> None:
    assert imputed(Impute("w", V, (K,), stored()), page((1, None), (2, 3.0))) == [None, 3.0]


def test_a_function_is_asked_once_for_each_key_that_misses_a_value(archive: Archive) -> None:
    spec = Impute("w", V, (K,), PythonFunction("some_archive:ten_times"))
    assert imputed(spec, page((1, None), (2, 5.0), (1, None), (3, None), (9, None), (None, None))) == [
        10.0,
        5.0,
        10.0,
        30.0,
        None,
        None,
    ]
    assert archive.asked == [1, 3, 9]
    assert imputed(spec, page((1, 5.0))) == [5.0]
    assert archive.asked == [1, 3, 9]


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("some_archive:failing", "failed for .1,.: LookupError: no 1"),
        ("some_archive:lying", "gave a value that is no Float64"),
        ("some_archive:constant", "is not a function"),
        ("some_archive:nothing", "cannot load the archive"),
        ("no_such_module:f", "cannot load the archive"),
    ],
)
def test_an_archive_that_does_not_work_is_named(archive: Archive, target: str, complaint: str) -> None:
    with pytest.raises(OperatorFault, match=complaint):
        imputed(Impute("w", V, (K,), PythonFunction(target)), page((1, None)))
