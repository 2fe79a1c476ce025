"""What is accepted runs: random queries, events and rules over random rows, cut and divided in two ways."""

from __future__ import annotations

import os

import pytest

from headrace.testing import run_fuzz

#: The first seed and how many; `python -m benches.fuzz --kind runs --count 10000` tries more.
FIRST, COUNT = map(int, os.environ.get("HEADRACE_FUZZ_RUNS", "0:30").split(":"))


@pytest.mark.slow
def test_what_is_accepted_runs_and_gives_the_same_however_it_is_divided() -> None:
    outcome = run_fuzz.check(range(FIRST, FIRST + COUNT))
    assert not outcome.wrong, "\n".join(map(str, outcome.wrong[:10]))
    assert outcome.accepted > COUNT / 2, "most statements are accepted, or little is tried"


def test_a_query_that_is_accepted_and_fails_is_noticed() -> None:
    aggregate = "CREATE AGGREGATE broken(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Broken';"
    statements = {
        1: aggregate + "CREATE QUERY q1 AS SELECT broken(v) AS b FROM s [NOW] INTO MEMORY",
        2: "CREATE QUERY q2 AS SELECT k FROM t INTO MEMORY",
    }
    results, wrong = run_fuzz.run(statements, [{"s": run_fuzz.Grammar(0).rows(3, 0)}], run_fuzz.local_host)
    assert [(error.seed, "broken on purpose" in error.reason) for error in wrong] == [(1, True)]
    assert list(results) == [2]
