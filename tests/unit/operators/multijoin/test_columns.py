"""A key that several inputs have in common is carried and stored once, so a box copies no more than binary joins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column
from headrace.model.join_tree import left_deep
from headrace.model.page import Page, Punctuation
from headrace.model.patterns.match import equal
from headrace.model.patterns.pattern import pattern
from headrace.model.schema import EXPIRY, TS, Field, Schema
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators import arrays
from headrace.operators.arrays import Ints
from headrace.operators.joins import join as joins
from headrace.operators.joins.join import Join
from headrace.operators.multijoin import probe
from headrace.operators.multijoin.columns import SharedKeys
from headrace.operators.multijoin.operator import MultiJoinOperator
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.state import sorted_side
from headrace.testing.migrations import Run, Tuple, join_of

STREAM = Schema((Field("k", Type.BIGINT), Field("v", Type.BIGINT)))
K = Column("k", Type.BIGINT)
WINDOW = Extent(span=5_000)
BOX = MultiJoin((STREAM,) * 3, (("k", "va"), ("kb", "vb"), ("kc", "vc")), (WINDOW,) * 3, ((K, K, K),), (), expiry=False)


class Cells:
    """Counts the values that are copied from row to row."""

    count = 0

    def gather(self, rows: pl.DataFrame, places: Ints) -> pl.DataFrame:
        self.count += rows.width * len(places)
        return arrays.gather(rows, places)


@contextmanager
def counted() -> Iterator[Cells]:
    cells = Cells()
    with (
        patch.object(probe, "gather", cells.gather),
        patch.object(joins, "gather", cells.gather),
        patch.object(sorted_side, "gather", cells.gather),
    ):
        yield cells


def pages() -> list[tuple[int, Page]]:
    chance, found = np.random.default_rng(1), []
    for second in range(12):
        for port in range(3):
            ts = second * 1_000 + np.sort(chance.integers(0, 1_000, 200))
            rows = {"k": chance.integers(0, 300, 200), "v": np.arange(200), TS: ts}
            found.append((port, Page(pl.DataFrame(rows))))
    return found


def box_results() -> pl.DataFrame:
    operator, found = MultiJoinOperator(BOX), []
    for number, (port, page) in enumerate(pages()):
        found += [each.rows for each in operator.on_page(port, page) if isinstance(each, Page)]
        operator.on_punctuation(port, Punctuation(number // 3 * 1_000))
    return pl.concat(found).select("k", "va", "vb", "vc", TS)


def binary_results() -> pl.DataFrame:
    """Join two inputs, keep the columns that are read later, and join the third, as vertices of their own do."""
    pairs = Schema((Field("k", Type.BIGINT), Field("va", Type.BIGINT), Field("vb", Type.BIGINT)))
    first = Join("inner", STREAM, STREAM, ("kb", "vb"), ((K, K),), None, WINDOW, WINDOW, expiry=True).build()
    second = Join("inner", pairs, STREAM, ("kc", "v"), ((K, K),), None, None, WINDOW, expiry=False).build()
    found = []
    for number, (port, page) in enumerate(pages()):
        bound = Punctuation(number // 3 * 1_000)
        if port == 2:
            given = list(second.on_page(1, page))
            second.on_punctuation(1, bound)
        else:
            given = []
            for each in first.on_page(port, page):
                if isinstance(each, Page):
                    kept = each.rows.select("k", pl.col("v").alias("va"), "vb", TS, EXPIRY)
                    given += list(second.on_page(0, Page(kept)))
            for mark in first.on_punctuation(port, bound):
                if isinstance(mark, Punctuation):
                    second.on_punctuation(0, mark)
        found += [each.rows for each in given if isinstance(each, Page)]
    return pl.concat(found).select("k", "va", "vb", pl.col("v").alias("vc"), TS)


def test_a_fixed_tree_copies_fewer_values_than_binary_vertices() -> None:
    with counted() as box:
        mine = box_results()
    with counted() as binary:
        theirs = binary_results()
    assert mine.height > 1_000
    assert mine.sort(mine.columns).equals(theirs.sort(theirs.columns))
    assert 0 < box.count <= binary.count


def test_keys_of_one_class_are_carried_once_and_read_under_each_name() -> None:
    keys = SharedKeys(BOX)
    assert keys.carried((0, 1, 2)) == ("k", "va", "vb", "vc")
    assert keys.carried((1, 2)) == ("kb", "vb", "vc")
    rows = pl.DataFrame({"kb": [7], "vb": [1], "vc": [2]})
    assert keys.column(rows, "kc").to_list() == [7]
    assert keys.column(rows, "kc").name == "kc"


def test_keys_of_different_types_or_that_are_computed_are_not_shared() -> None:
    small = Schema((Field("k", Type.INT),))
    spec = MultiJoin(
        (STREAM, small, STREAM),
        (("k", "va"), ("kb",), ("kc", "vc")),
        (WINDOW,) * 3,
        ((K, Column("k", Type.INT), K),),
        (),
        expiry=False,
    )
    assert SharedKeys(spec).carried((0, 1, 2)) == ("k", "va", "kb", "kc", "vc")


def test_states_of_earlier_versions_which_store_a_key_for_each_input_are_restored() -> None:
    run = Run(join_of("one key", [50, 50, 50]))
    row = {"j": 0, "s": ""}
    for port in range(2):
        run.push(port, [Tuple(port, 1, {"id": port, "k": 3, **row})])
    state = dict(run.operator.state())
    (name,) = (name for name in state if name.startswith("~0.1:"))
    assert "k1" not in state[name].columns
    rows = state.pop(name)
    state[name[1:]] = rows.with_columns(pl.col("k0").alias("k1")).select(*reversed(rows.columns), "k1")
    del state["joined"]
    run.operator = MultiJoinOperator(run.spec)
    run.operator.restore(state)
    run.push(0, [Tuple(0, 2, {"id": 9, "k": 3, **row})])  # its pairs are merged with those that were restored
    run.push(2, [Tuple(2, 2, {"id": 2, "k": 3, **row})])
    assert run.difference() == (0, 0)
    assert run.emitted.total() == 2


def test_feedback_on_a_key_that_is_stored_under_the_name_of_another_input_forgets_joined_rows() -> None:
    run = Run(join_of("one key", [50, 50, 50]))
    run.change(left_deep([0, 1, 2]), "moving", 0)
    for port in range(2):
        run.push(port, [Tuple(port, 1, {"id": 10 * port + k, "k": k, "j": 0, "s": ""}) for k in range(3)])
    assert run.operator.purge(1, pattern((K, equal(1)))) == 2  # one of the input, and one pair
    run.push(2, [Tuple(2, 1, {"id": 20 + k, "k": k, "j": 0, "s": ""}) for k in range(3)])
    assert sorted(run.emitted) == [(0, 10, 20), (2, 12, 22)]
