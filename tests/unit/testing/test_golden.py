from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from headrace.session import Session
from headrace.testing.golden.rows import parse_rows, print_rows, print_time
from headrace.testing.golden.runner import run_script, run_together
from headrace.testing.golden.script import differences
from headrace.testing.oracle.oracle import Row
from headrace.testing.strategies.queries import STREAMS

SCRIPT = """\
> CREATE STREAM bids (at TIMESTAMP, price DOUBLE, who STRING) TIMESTAMP BY at FROM MEMORY

> SELECT count(*) AS n FROM bids [RANGE 10 SECONDS]
feed bids at=1s, 4s, 11s
---
10s: n=2
20s: n=1

# rows in order of time, then content
> SELECT who, price, at
  FROM bids WHERE price > 0
feed bids at=1s price=3 who=b, at=1s price=2.5 who='a b'
advance 5s
feed bids 2500ms price=1
---
1s: who='a b' price=2.5 at=1s
1s: who=b price=3.0 at=1s
2500ms: who=- price=1.0 at=2500ms

> CREATE QUERY cheap AS SELECT price FROM bids WHERE price < 2
> CREATE QUERY dear AS SELECT price FROM bids WHERE price >= 2
feed bids at=1s price=3, at=2s price=1
---
cheap 2s: price=1.0
dear 1s: price=3.0

> SELECT nonsense FROM bids
---
HR102 NameFault: column 'nonsense' does not exist in bids
   1 | SELECT nonsense FROM bids
     |        ^^^^^^^^
  hint: columns are at, price, who
"""


def test_a_correct_script_comes_back_unchanged():
    assert run_script(SCRIPT) == SCRIPT


def test_a_wrong_script_comes_back_with_what_came_out():
    assert run_script(SCRIPT.replace("10s: n=2", "10s: n=3")) == SCRIPT


def test_rows_of_feed_have_the_types_of_the_stream():
    rows = parse_rows("at=1s item='a, b' n=-2, 2s item=-", STREAMS[0])
    assert rows == [
        {"at": dt.datetime(1970, 1, 1, 0, 0, 1), "item": "a, b", "n": -2},  # noqa: DTZ001
        {"at": dt.datetime(1970, 1, 1, 0, 0, 2), "item": None},  # noqa: DTZ001
    ]


@pytest.mark.parametrize(
    ("instant", "text"), [(0, "0s"), (1_500_000, "1500ms"), (7, "7us"), (1_767_225_600_000_000, "2026-01-01T00:00:00")]
)
def test_times_are_short(instant, text):
    assert print_time(instant) == text


def test_rows_print_in_canonical_order():
    rows = [Row(2_000_000, {"x": True}), Row(1_000_000, {"x": "b"}), Row(1_000_000, {"x": None})]
    assert print_rows(rows) == ["1s: x=-", "1s: x=b", "2s: x=true"]


def test_unknown_commands_are_refused():
    with pytest.raises(ValueError, match="no command starts with 'dance'"):
        run_script("dance\n---\n")


def test_cases_run_together_give_the_same():
    script = (Path(__file__).parents[2] / "golden" / "queries" / "windows.txt").read_text()
    with Session(host="local", buckets=3) as session:
        assert run_together([script], session) == [script]


def test_a_case_marked_local_is_left_alone():
    script = (
        "> CREATE STREAM a (x INT) FROM MEMORY\n\n# local\n> SHOW STREAMS\n---\nanything\n\n> SELECT x FROM a\n---\n"
    )
    with Session(host="local") as session:
        assert run_together([script], session) == [script]


def test_a_wrong_case_is_shown_with_file_line_commands_and_diff():
    wrong = SCRIPT.replace("10s: n=2", "10s: n=3")
    assert differences("queries/bids.txt", wrong, SCRIPT).splitlines() == [
        "queries/bids.txt:3",
        "> SELECT count(*) AS n FROM bids [RANGE 10 SECONDS]",
        "feed bids at=1s, 4s, 11s",
        "---",
        "- 10s: n=3",
        "+ 10s: n=2",
        "  20s: n=1",
    ]
    assert differences("queries/bids.txt", SCRIPT, SCRIPT) == ""


def test_a_statement_that_is_not_correct_gets_no_sink():
    script = "> SELECT 1 FROM\n---\n"
    assert "INTO MEMORY" not in run_script(script)


def test_a_script_may_have_verbs_of_its_own():
    script = "greet world\n---\nhello world\n"
    verbs = {"greet": lambda command: [f"hello {command.split()[1]}"]}
    assert run_script(script, verbs=lambda: verbs) == script
