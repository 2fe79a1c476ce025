"""The tables of a benchmark fit the terminal without cutting names or numbers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from headrace.cli.bench_table import table, tables

LONG = "geometric mean to the better peer, 23 queries"
ROWS: list[dict[str, Any]] = [
    {
        "case": "q10, stateless",
        "ours": 1_234_567.0,
        "peers": {"spark": 234_567.0, "flink": None},
        "unit": "tuples/s",
        "ratio": 5.26,
    },
    {"case": LONG, "ours": 3.4, "unit": "times", "target": 3.0, "verdict": "met"},
    {"case": "ahead of Flink, queries of 23", "ours": 17, "target": 18, "verdict": "missed"},
]


def drawn(figures: dict[str, Any], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, soft_wrap=True)
    parts = tables(figures, console, width)
    for part in parts:
        console.print(part, width=width)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_names_and_numbers_are_whole_however_narrow_the_terminal(width: int) -> None:
    lines = drawn({"rows": ROWS}, width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    for whole in ("q10, stateless", "1,234,567", "234,567", "tuples/s", "5.26x", "missed"):
        assert whole in text
    for word in LONG.split():
        assert word in text


def test_rows_without_peers_have_a_table_of_their_own_if_one_table_is_too_wide() -> None:
    wide, narrow = drawn({"rows": ROWS}, 200), drawn({"rows": ROWS}, 80)
    assert [line.split()[0] for line in wide] == ["case", "q10,", "geometric", "ahead"]
    assert [line.split() for line in narrow if line.startswith("case")] == [
        ["case", "ours", "spark", "flink", "unit", "ratio"],
        ["case", "ours", "unit", "target", "verdict"],
    ]


def test_a_column_in_which_no_row_has_anything_is_left_out() -> None:
    row = {"case": "join", "ours": 2.5, "peers": {"plain": 1.0}, "unit": "", "ratio": 2.5, "target": 2}
    assert [column.header for column in table([row]).columns] == ["case", "ours", "plain", "ratio", "target"]
    assert [column.header for column in table([{**row, "unit": "M/s", "verdict": "met"}]).columns][3:] == [
        "unit",
        "ratio",
        "target",
        "verdict",
    ]


def test_many_peers_share_a_column() -> None:
    rows = [{"case": peer, "ours": 2.0, "peers": {peer: 1.0}, "unit": "s"} for peer in ("a", "b", "c", "d", "e")]
    (beside,) = (column for column in table(rows).columns if column.header == "beside")
    assert list(beside.cells) == ["a 1", "b 1", "c 1", "d 1", "e 1"]


def test_what_looks_like_markup_is_printed() -> None:
    row = {"case": "local[2] beside [bold]", "ours": "[/]", "unit": "[s]", "verdict": "[met]"}
    assert drawn({"rows": [row]}, 80)[1].split() == ["local[2]", "beside", "[bold]", "[/]", "[s]", "[met]"]
