"""Stream modifiers from SQL against their formulas, written down here once more without plans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.time import SECOND
from headrace.optimizer.optimizer import best
from headrace.plan.binding.binder import bind
from headrace.testing.oracle.oracle import Row
from headrace.testing.oracle.rows import rounded
from headrace.testing.run_graph import run_graph
from headrace.testing.strategies.queries import STREAMS, stream_histories

pytestmark = pytest.mark.slow

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)


def results(text: str, histories: dict[str, list[Row]]) -> Counter[Any]:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    plan = best(bind(statement.select, statement.text, CATALOG))
    found = run_graph(lower(plan, "q", {}), STREAMS, histories, size=3, forgetful=True)
    return Counter((row.ts, *(rounded(value) for value in row.values.values())) for row in found)


def of_each_item(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The tuples of each item in the order of time, ties as they came."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.ts):
        found[row.values["item"]].append(row)
    return iter(found.values())


def difference(new: Any, old: Any) -> Any:
    return None if new is None or old is None else new - old


def ratio(above: Any, below: Any, pseudo: float) -> Any:
    return None if above is None or below is None or below + pseudo == 0 else (above + pseudo) / (below + pseudo)


def formulas(old: Row, new: Row, pseudo: float) -> tuple[Any, ...]:
    """DIFF, RDIFF and SLOPE of n, the latter over seconds."""
    change = difference(new.values["n"], old.values["n"])
    seconds = new.ts // SECOND - old.ts // SECOND
    return change, ratio(change, new.values["n"], pseudo), ratio(change, seconds, pseudo)


def row_of(stamp: int, carried: Row, old: Row, new: Row, pseudo: float) -> tuple[Any, ...]:
    return stamp, *(
        rounded(value) for value in (carried.values["item"], carried.values["n"], *formulas(old, new, pseudo))
    )


CALLS = (
    "item, n, {w}DIFF(n{o}){by} AS d, {w}RDIFF(n PSEUDO {p}{o}){by} AS r, "
    "{w}SLOPE(n, unix_seconds(at) PSEUDO {p}{o}){by} AS s"
)


@settings(deadline=None, max_examples=20)
@given(stream_histories(most=12), st.sampled_from(["", " OLD", " NEW"]), st.sampled_from([0, 0.01, 3]))
def test_k_tuples_of_a_partition_give_k_less_one_results(histories, profile, pseudo):
    calls = CALLS.format(w="", o=profile, p=pseudo, by=" OVER (PARTITION BY item)")
    pairs = [pair for group in of_each_item(histories["moves"]) for pair in pairwise(group)]
    expected = Counter(row_of(new.ts, old if profile == " OLD" else new, old, new, pseudo) for old, new in pairs)
    assert results(f"SELECT {calls} FROM moves", histories) == expected


@settings(deadline=None, max_examples=20)
@given(stream_histories(most=12), st.sampled_from(["", " OLD", " NEW"]), st.sampled_from([0, 0.01, 3]))
def test_a_window_of_two_tuples_or_more_gives_one_result(histories, profile, pseudo):
    calls = CALLS.format(w="W", o=profile, p=pseudo, by="")
    expected: Counter[Any] = Counter()
    for group in of_each_item(histories["moves"]):
        for end in sorted({(row.ts // (5 * SECOND) + 1) * 5 * SECOND for row in group}):
            inside = [row for row in group if end - 5 * SECOND <= row.ts < end]
            if len(inside) > 1:
                old, new = inside[0], inside[-1]
                expected[row_of(end, old if profile == " OLD" else new, old, new, pseudo)] += 1
    assert results(f"SELECT {calls} FROM moves [RANGE 5 SECONDS] GROUP BY item", histories) == expected
