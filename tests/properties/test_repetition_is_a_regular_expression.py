"""Where every tuple is one of the events, a repetition in RECENT finds what a regular expression finds: as Flink's
MATCH_RECOGNIZE does with AFTER MATCH SKIP PAST LAST ROW, for conditions that exclude each other."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.session import Session

PATTERNS = {
    "ab+c": "a SEQUENCE b+ SEQUENCE c",
    "ab*c": "a SEQUENCE b* SEQUENCE c",
    "ab?c": "a SEQUENCE b? SEQUENCE c",
    "ab{2,3}c": "a SEQUENCE b{2,3} SEQUENCE c",
    "a[bd]+c": "a SEQUENCE (b OR d)+ SEQUENCE c",
    "ab+d*c": "a SEQUENCE b+ SEQUENCE d* SEQUENCE c",
}
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(words=st.lists(st.text("abcd", max_size=14), min_size=1, max_size=3), limit=st.sampled_from([2, 1000]))
def test_a_repetition_finds_what_a_regular_expression_finds(words: list[str], limit: int) -> None:
    """Each key has a word; the letters come one after the other."""
    events = [f"CREATE EVENT {letter} AS SELECT at, k FROM s WHERE letter = '{letter}'" for letter in "abcd"]
    for number, event in enumerate(PATTERNS.values()):
        parts = [letter for letter in "bcd" if re.search(rf"\b{letter}\b", event)]
        keys = " AND ".join(f"a.k = {part}.k" for part in parts)
        counts = ", ".join(f"COUNT({part}) AS {part}s" for part in parts)
        events.append(
            f"CREATE EVENT e{number} AS SELECT a.k, a.at, {counts}, c.at AS ended "
            f"FROM {event} WITHIN 1 HOUR WHERE {keys} CONTEXT RECENT"
        )
        events.append(f"CREATE QUERY q{number} AS SELECT * FROM e{number} INTO MEMORY")
    rows = [
        {"at": START + dt.timedelta(seconds=second), "k": key, "letter": letter}
        for key, word in enumerate(words)
        for second, letter in enumerate(word)
    ]
    with Session(host="local", buckets=2, limit=limit) as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, k INT, letter STRING) TIMESTAMP BY at SKEW 1 MINUTE FROM MEMORY"
        )
        session.execute("; ".join(events))
        session.push("s", rows)
        session.drain(60)
        for number, (pattern, event) in enumerate(PATTERNS.items()):
            used = "abcd" if "d" in event.split() or "d)" in event or "d*" in event else "abc"
            expected = []
            for key, word in enumerate(words):
                places = [place for place, letter in enumerate(word) if letter in used]
                for match in re.finditer(pattern, "".join(word[place] for place in places)):
                    expected.append((key, places[match.start()], places[match.end() - 1], match[0].count("b")))
            found = [
                (row["k"], (row["at"] - START).seconds, (row["ended"] - START).seconds, row["bs"])
                for row in session.results(f"q{number}")
            ]
            assert sorted(found) == sorted(expected), pattern
