"""Semi and anti joins of windows give what DuckDB gives for the same conditions over copies of the tuples."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from headrace.session import Session

BEGIN = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
SAME = "l.window_start = r.window_start AND l.window_end = r.window_end"
TESTS = (
    f"l.k IN (SELECT k FROM $b r WHERE {SAME})",
    f"l.k NOT IN (SELECT k FROM $b r WHERE {SAME})",
    f"l.k NOT IN (SELECT k FROM $b r WHERE {SAME} AND r.k IS NOT NULL)",
    f"EXISTS (SELECT * FROM $b r WHERE l.k = r.k AND r.x > l.x AND {SAME})",
    f"NOT EXISTS (SELECT * FROM $b r WHERE l.k = r.k AND {SAME})",
    f"l.k IN (SELECT k FROM $b r WHERE {SAME}) AND NOT EXISTS (SELECT * FROM $b r WHERE r.x = l.x AND {SAME})",
)
#: By how windows are written: seconds of the slide and of the size.
WINDOWS = {"TUMBLE": (10, 10), "HOP": (5, 10)}


def rows(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "at": BEGIN + timedelta(seconds=second),
            "k": chance.choice([1, 2, 3, 4, 5, 6, None]),
            "x": chance.choice([1, 2, 3, None]),
        }
        for second in sorted(chance.choices(range(60), k=25))
    ]


@pytest.mark.parametrize("function", WINDOWS)
def test_tests_of_the_tuples_of_a_window_are_those_of_duckdb(function: str) -> None:
    slide, size = WINDOWS[function]
    given = {"a": rows(1), "b": rows(2)}
    expected = []
    with duckdb.connect() as db:
        for name, held in given.items():
            db.execute(f"CREATE TABLE {name} (k INT, x INT, window_start INT, window_end INT)")
            for row in held:
                second = int((row["at"] - BEGIN).total_seconds())
                for start in range(second // slide * slide, second - size, -slide):
                    db.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", [row["k"], row["x"], start, start + size])
        for test in TESTS:
            found = db.execute(f"SELECT k, x, window_end FROM a l WHERE {test.replace('$b', 'b')}").fetchall()
            expected.append([(k, x, BEGIN + timedelta(seconds=end)) for k, x, end in found])
    spans = "INTERVAL '10' SECOND" if slide == size else "INTERVAL '5' SECOND, INTERVAL '10' SECOND"
    window = f"(SELECT * FROM TABLE({function}(TABLE $, DESCRIPTOR(at), {spans})))"
    with Session(host="local", buckets=2) as session:
        for name in given:
            session.execute(f"CREATE STREAM {name} (at TIMESTAMP, k INT, x INT) TIMESTAMP BY at FROM MEMORY")
        for number, test in enumerate(TESTS):
            text = f"SELECT k, x, window_end FROM {window.replace('$', 'a')} l WHERE {test}"
            session.execute(f"CREATE QUERY q{number} AS {text.replace('$b', window.replace('$', 'b'))} INTO MEMORY")
        for name, held in given.items():
            session.push(name, held)
        session.drain()
        for number, (test, rows_) in enumerate(zip(TESTS, expected, strict=True)):
            found = [tuple(row.values()) for row in session.results(f"q{number}")]
            assert sorted(found, key=repr) == sorted(rows_, key=repr), test
            assert 0 < len(found) < 25 * size // slide, test
