"""MATCH_RECOGNIZE finds what Flink finds: an imitation of its automaton, and recorded results of Flink 2.3."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Stream
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.plan.binding.binder import bind
from headrace.session import Session
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row

#: Rows, queries, and the results of Flink 2.3 for them; in the second, rows satisfy conditions of several variables.
RECORDED = ("flink_matches.json", "flink_overlaps.json")
SECOND = 1_000_000
STREAM = "CREATE STREAM t (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY"
QUANTIFIERS: dict[str, tuple[int, int | None]] = {
    "": (1, 1), "+": (1, None), "*": (0, None), "?": (0, 1), "{2}": (2, 2), "{1,2}": (1, 2), "{0,2}": (0, 2),
    "{2,}": (2, None),
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """One way through the pattern: the variable, how many rows it has, and the rows of all variables before."""

    variable: int
    count: int
    taken: tuple[int, ...]


def matches_of_flink(
    word: list[int], times: list[int], signs: list[str], within: int, *, overlapping: bool
) -> list[tuple[int, tuple[int, ...]]]:
    """Follow all ways from each row on, row by row; the first that ends counts, earlier starts first.

    A row of the word is a set of variables whose conditions it satisfies, as bits. A variable whose number of rows is
    not fixed is left only with a row that does not fit it, also if it has all its rows; one that is optional may always
    be left.
    """
    found, start = list[tuple[int, tuple[int, ...]]](), 0
    while start < len(word):
        ways, ended = [Way(0, 0, (0,) * len(signs))], None
        for row in range(start, len(word)):
            if times[row] - times[start] >= within or not ways:
                break
            ways = [after for way in ways for after in _after(way, word[row], signs)]
            ended = next((way for way in ways if way.variable == len(signs)), None)
            if ended is not None:
                found.append((start, ended.taken))
                break
        start += 1 if ended is None or overlapping else sum(ended.taken)
    return found


def _after(way: Way, bits: int, signs: list[str]) -> list[Way]:
    if way.variable == len(signs):
        return []
    least, most = QUANTIFIERS[signs[way.variable]]
    fits = bool(bits >> way.variable & 1) and (most is None or way.count < most)
    ways: list[Way] = []
    if fits:
        taken = tuple(n + (i == way.variable) for i, n in enumerate(way.taken))
        ways.append(Way(way.variable, way.count + 1, taken))
        if way.variable == len(signs) - 1 and way.count + 1 == most:
            ways = [Way(len(signs), 0, taken)]
    greedy = least != most and signs[way.variable] != "?"
    if way.count >= least and not (greedy and bits >> way.variable & 1):
        ways += _after(Way(way.variable + 1, 0, way.taken), bits, signs)
    return ways


@settings(deadline=None, max_examples=60)
@given(
    word=st.lists(st.integers(0, 15), max_size=14),
    gaps=st.lists(st.integers(1, 3), min_size=14, max_size=14),
    signs=st.tuples(*[st.sampled_from(list(QUANTIFIERS))] * 3, st.sampled_from(["", "{2}"])),
    within=st.integers(2, 30),
    overlapping=st.booleans(),
)
def test_the_same_matches_as_flinks_automaton(
    word: list[int], gaps: list[int], signs: tuple[str, ...], within: int, overlapping: bool
) -> None:
    """Rows satisfy any conditions, also those of several variables."""
    times = [sum(gaps[: place + 1]) for place in range(len(word))]
    defined = ", ".join(f"{name} AS (v & {1 << i}) > 0" for i, name in enumerate("ABCD"))
    counts = ", ".join(f"COUNT({name}.v) AS {name}_count" for name in "ABCD")
    pattern = " ".join(name + sign for name, sign in zip("ABCD", signs, strict=True))
    text = (
        f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY at MEASURES FIRST(at) AS start_at, {counts} ONE ROW PER MATCH "
        f"AFTER MATCH SKIP {'TO NEXT ROW' if overlapping else 'PAST LAST ROW'} "
        f"PATTERN ({pattern}) WITHIN INTERVAL '{within}' SECOND DEFINE {defined})"
    )
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    rows = [
        Row(time * SECOND, {"at": time * SECOND, "k": 1, "v": bits}) for time, bits in zip(times, word, strict=True)
    ]
    results = answer(bind(statement.select, statement.text, _catalog()), {"t": rows})
    ours = [
        (row.values["start_at"] // SECOND, tuple(row.values[f"{name}_count"] for name in "ABCD")) for row in results
    ]
    flinks = matches_of_flink(word, times, list(signs), within, overlapping=overlapping)
    assert ours == [(times[start], taken) for start, taken in flinks]


@cache
def _catalog() -> Catalog:
    with Session(host="local") as session:
        session.execute(STREAM)
        stream = session.catalog.find("t")
    assert isinstance(stream, Stream)
    catalog = Catalog()
    catalog.add(stream)
    return catalog


@pytest.mark.slow
@pytest.mark.parametrize("file", RECORDED)
def test_the_same_results_as_flink_itself(file: str) -> None:
    recorded = json.loads((Path(__file__).parent / file).read_text())
    rows = [
        {"at": dt.datetime.fromisoformat(at), "k": k, "v": v}  # results have no zone
        for at, k, v in recorded["rows"]
    ]
    with Session(host="local", buckets=2, limit=100) as session:
        session.execute(STREAM)
        queries = recorded["queries"]
        session.execute(
            ";\n".join(f"CREATE QUERY q{i} AS {each['query']} INTO MEMORY" for i, each in enumerate(queries))
        )
        session.push("t", rows)
        session.drain(60)
        for number, each in enumerate(queries):
            ours = [[_shown(value) for value in row.values()] for row in session.results(f"q{number}")]
            assert sorted(ours, key=str) == sorted(each["results"], key=str), each["query"]
            assert ours, each["query"]


def _shown(value: object) -> object:
    return value.isoformat(" ", "milliseconds") if isinstance(value, dt.datetime) else value
