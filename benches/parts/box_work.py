"""The processor time of a join of three streams as one operator, beside joins of two inputs each, in one process.

Both get the same pages, of streams with a common key; the first one rarely has a key of the others. The one operator
also reports what it did after each second of event time, and now and then samples of its keys, as it does with a fixed
plan.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import EXPIRY, TS, Field, Schema
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.joins.join import Join
from headrace.operators.multijoin.operator import MultiJoinOperator
from headrace.operators.multijoin.spec import MultiJoin

STREAM = Schema((Field("k", Type.BIGINT), Field("v", Type.BIGINT)))
KEY = Column("k", Type.BIGINT)
WINDOW = Extent(span=5_000_000)
RESULT = ("k", "va", "vb", "vc", TS)
#: Tuples of a stream in a second, partners of a tuple in a window, the share of the rare stream that has any.
PER_SECOND, MATCHES, SHARE = 20_000, 8, 0.02

#: Seconds between samples of keys.
SAMPLED = 10

#: A page of a port; or, without a port, the end of a second.
Step = tuple[int | None, Page | None]


def measure(seconds: int, rounds: int) -> tuple[float, float]:
    """Return the least processor time of the operator, and of joins of two inputs each, in seconds."""
    steps = list(steps_of(seconds))
    taken: dict[Callable[[list[Step]], int], list[float]] = {box: [], binary: []}
    results = set()
    for number in range(rounds):
        for way in list(taken) if number % 2 else list(taken)[::-1]:
            gc.collect()
            began = time.process_time()
            results.add(way(steps))
            taken[way].append(time.process_time() - began)
    assert len(results) == 1, "the number of results differs"
    return min(taken[box]), min(taken[binary])


def steps_of(seconds: int) -> Iterable[Step]:
    """Yield pages of three streams, and the ends of seconds."""
    chance, keys = np.random.default_rng(1), 5 * PER_SECOND // MATCHES
    for second in range(seconds):
        for port in range(3):
            at = second * 1_000_000 + np.sort(chance.integers(0, 1_000_000, PER_SECOND))
            key = at * keys // 20_000_000 + chance.integers(0, keys, PER_SECOND)
            if not port:
                others = -1 - chance.integers(0, 1 << 40, PER_SECOND)
                key = np.where(chance.random(PER_SECOND) >= SHARE, others, key)
            yield port, Page(pl.DataFrame({"k": key, "v": np.arange(PER_SECOND), TS: at}))
        yield None, None


def box(steps: list[Step]) -> int:
    """Return the number of results of one operator."""
    names = (("k", "va"), ("kb", "vb"), ("kc", "vc"))
    operator = MultiJoinOperator(MultiJoin((STREAM,) * 3, names, (WINDOW,) * 3, ((KEY, KEY, KEY),), (), expiry=False))
    count = second = 0
    for port, page in steps:
        if port is None or page is None:
            second += 1
            for each in range(3):
                operator.on_punctuation(each, Punctuation(second * 1_000_000))
            operator.seen(sample=second % SAMPLED == 0)
        else:
            count += _rows(operator.on_page(port, page))
    return count


def binary(steps: list[Step]) -> int:
    """Return the number of results of two operators, with the columns that are read later in between."""
    pairs = Schema((Field("k", Type.BIGINT), Field("va", Type.BIGINT), Field("vb", Type.BIGINT)))
    lower = Join("inner", STREAM, STREAM, ("kb", "vb"), ((KEY, KEY),), None, WINDOW, WINDOW, expiry=True).build()
    upper = Join("inner", pairs, STREAM, ("kc", "vc"), ((KEY, KEY),), None, None, WINDOW, expiry=False).build()
    count = second = 0

    def pass_on(elements: Iterable[Element]) -> int:
        found = 0
        for element in elements:
            if isinstance(element, Page):
                kept = element.rows.select("k", pl.col("v").alias("va"), "vb", TS, EXPIRY)
                found += _rows(upper.on_page(0, Page(kept)))
            else:
                upper.on_element(0, element)
        return found

    for port, page in steps:
        if port is None or page is None:
            second += 1
            bound = Punctuation(second * 1_000_000)
            for each in range(2):
                count += pass_on(lower.on_punctuation(each, bound))
            upper.on_punctuation(1, bound)
        elif port == 2:
            count += _rows(upper.on_page(1, page))
        else:
            count += pass_on(lower.on_page(port, page))
    return count


def _rows(elements: Iterable[Element]) -> int:
    return sum(element.rows.select(RESULT).height for element in elements if isinstance(element, Page))
