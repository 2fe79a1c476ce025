from __future__ import annotations

import polars as pl
import pytest

from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.operators.operator import Operator
from headrace.operators.spec import Spec
from headrace.testing.contract import check_operator, cut
from headrace.testing.streams import stream_from_text

SCRIPT = [
    (0, element)
    for element in stream_from_text("""
    ts  x:bigint
    3   1
    1   2
    2   3
    -- bound 3
    5   4
    3   5
    -- bound 5
    9   6
    """).elements()
]


class Sorter(Operator):
    """Holds rows until a punctuation passes them; `fault` is what is wrong with it."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.held_rows: pl.DataFrame | None = None

    def on_page(self, port, page):
        if self.fault == "counts pages":
            return (page, page.__class__(page.rows[:1]))
        rows = page.rows if self.held_rows is None else pl.concat([self.held_rows, page.rows])
        self.held_rows = rows
        return ()

    def on_punctuation(self, port, mark):
        if self.held_rows is None:
            return (mark,)
        ready = self.held_rows.filter(pl.col(TS) < mark.bound).sort(TS)
        self.held_rows = self.held_rows.filter(pl.col(TS) >= mark.bound)
        bound = Punctuation(mark.bound + 2) if self.fault == "promises too much" else mark
        if self.fault == "falls":
            bound = Punctuation(-mark.bound)
        return (Page(ready), bound)

    def state(self):
        if self.held_rows is None or self.fault == "forgets":
            return {}
        if self.fault == "rewrites":
            return {"always": pl.DataFrame({"a": [1]})}
        return {"rows": self.held_rows}

    def restore(self, state):
        self.held_rows = state.get("rows")

    def due(self):
        if self.held_rows is None or not self.held_rows.height or self.fault == "is never due":
            return None
        return self.held_rows[TS].min() + (9 if self.fault == "is due too late" else 1)


class Sort(Spec, frozen=True, tag="sort"):
    fault: str = ""

    def build(self):
        return Sorter(self.fault)

    def describe(self, inputs=()):
        return "sort"


def test_a_good_operator_passes_and_gives_its_results():
    assert [row.values["x"] for row in check_operator(Sort(), SCRIPT)] == [2, 3, 1, 5, 4, 6]


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("counts pages", "pages of"),
        ("promises too much", "come after punctuation"),
        ("falls", "punctuation falls"),
        ("forgets", "restored after"),
        ("rewrites", "did not change"),
        ("is never due", "nothing was due"),
        ("is due too late", "was due at"),
    ],
)
def test_a_bad_operator_is_found_out(fault, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_operator(Sort(fault), SCRIPT)


@pytest.mark.parametrize(("size", "lengths"), [(1, [1] * 6), (2, [2, 1, 2, 1]), (10_000, [3, 2, 1])])
def test_cutting_keeps_tuples_and_order(size, lengths):
    pieces = cut(cut(SCRIPT, 1), size)
    assert [len(piece) for _, piece in pieces if isinstance(piece, Page)] == lengths
    assert [x for _, piece in pieces if isinstance(piece, Page) for x in piece.rows["x"]] == [1, 2, 3, 4, 5, 6]
