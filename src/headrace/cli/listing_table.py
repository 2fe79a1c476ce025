"""Listings as tables that fit the terminal: columns that have no room go below, beside the first column again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

#: What is longer may be wrapped: texts of several words, and single words that no terminal has room for.
_SHORT, _LONGEST_WORD = 24, 40
_GAP = 2


def tables(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> list[Table]:
    """Return one table if its columns fit the width with whole words; else several, each with the first column."""
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    cells = [[row[place] for row in texts] for place in range(len(columns))]
    least = [_least(heading, column) for heading, column in zip(columns, cells, strict=True)]
    return [_table(places, columns, cells) for places in _parts(least, width)]


def _parts(least: Sequence[int], width: int) -> Iterator[list[int]]:
    """Divide the places of columns into those that fit beside the first one."""
    part, used = [0], least[0]
    for place, needed in enumerate(least[1:], 1):
        if used + _GAP + needed > width and len(part) > 1:
            yield part
            part, used = [0], least[0]
        part.append(place)
        used += _GAP + needed
    yield part


def _least(heading: str, cells: Sequence[str]) -> int:
    """Return the width below which a column would be hard to read."""
    return max(_longest_word([heading, *cells]), min(_SHORT, max(map(len, cells), default=0)))


def _longest_word(texts: Sequence[str]) -> int:
    return max((min(len(word), _LONGEST_WORD) for text in texts for word in text.split()), default=0)


def _table(places: Sequence[int], columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place in places:
        table.add_column(
            escape(columns[place]), overflow="fold", min_width=_longest_word([columns[place], *cells[place]])
        )
    for row in zip(*(cells[place] for place in places), strict=True):
        table.add_row(*map(escape, row))
    return table
