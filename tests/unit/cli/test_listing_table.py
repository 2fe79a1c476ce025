"""Listings fit the terminal with whole words."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from headrace.cli.listing_table import tables

COLUMNS = ("operator", "in", "out", "queued", "queued bytes", "held", "state bytes", "late", "us per tuple", "peak",
           "ms in queue", "idle share", "burstiness")  # fmt: skip
ROWS = [
    ("scan probes (segment, speed, __weight)", 4_000_000, 4_000_000, 0, 0, 0, 0, 0, 0.3, 0, 0.0, 0.0, None),
    ("count(*), avg(price) per item, 5 s", 2_000, 1_900, 17, 1_234, 100, 2_345_678, 3, 5.1, 99, 12.5, 0.25, 1.5),
]


def drawn(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, soft_wrap=True)
    for table in tables(columns, rows, width):
        console.print(table, width=width)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 300])
def test_no_word_is_cut(width: int) -> None:
    lines = drawn(COLUMNS, ROWS, width)
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert "2345678" in words
    for text in (*COLUMNS, *(str(value) for row in ROWS for value in row if value is not None)):
        assert set(text.split()) <= words


def test_columns_without_room_are_below_beside_the_first_one() -> None:
    assert len(tables(COLUMNS, ROWS, 300)) == 1
    parts = tables(COLUMNS, ROWS, 80)
    assert len(parts) > 1
    headings = [[str(column.header) for column in part.columns] for part in parts]
    assert all(each[0] == "operator" for each in headings)
    assert [heading for each in headings for heading in each[1:]] == list(COLUMNS[1:])


def test_words_that_no_terminal_has_room_for_are_wrapped() -> None:
    lines = drawn(("name", "path"), [("a", "x" * 500)], 60)
    assert max(map(len, lines)) <= 60
    assert sum(line.count("x") for line in lines) == 500


def test_an_empty_listing_has_its_headings() -> None:
    assert drawn(("query", "state"), [], 80) == ["query  state"]


def test_what_looks_like_markup_is_printed() -> None:
    assert drawn(("[bold]",), [("[RANGE 5 SECONDS]",)], 80)[1].strip() == "[RANGE 5 SECONDS]"
