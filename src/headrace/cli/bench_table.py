"""The tables of a benchmark's figures: a row for each case, with our figure, those of the peers, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

Row: TypeAlias = Mapping[str, Any]

_GOOD = ("met", "ok", "pass", "passed")
#: How many peers have columns of their own.
_MOST_COLUMNS = 4
#: Wider than any table of a benchmark.
_UNBOUNDED = 10_000


def tables(figures: Mapping[str, Any], console: Console, width: int) -> list[Table]:
    """Return one table if that fits the width; else one of the rows with peers, and one of the others.

    Rows without peers, such as counts of cases, tend to have long names: they would leave the others no room.
    """
    rows: Sequence[Row] = figures.get("rows", ())
    whole = table(rows)
    if Measurement.get(console, console.options.update(width=_UNBOUNDED), whole).maximum <= width:
        return [whole]
    kinds = [[row for row in rows if bool(row.get("peers")) is has_peers] for has_peers in (True, False)]
    return [table(kind) for kind in kinds if kind]


def table(rows: Sequence[Row]) -> Table:
    """Return a table with a row per case: ours, each peer, and whether the target is met.

    Columns in which no row has anything are left out. Where there is not enough room, texts are wrapped and numbers
    stay whole. Many peers, of which most have a figure in few rows, share one column.
    """
    peers = list(dict.fromkeys(peer for row in rows for peer in row.get("peers", {})))
    columns = {"case": [escape(str(row["case"])) for row in rows], "ours": [_number(row.get("ours")) for row in rows]}
    if len(peers) > _MOST_COLUMNS:
        columns["beside"] = [_beside(row) for row in rows]
    else:
        columns |= {peer: [_beside_one(row, peer) for row in rows] for peer in peers}
    columns["unit"] = [escape(row.get("unit", "")) for row in rows]
    columns["ratio"] = ["" if row.get("ratio") is None else f"{row['ratio']:.2f}x" for row in rows]
    columns["target"] = ["" if row.get("target") is None else _number(row["target"]) for row in rows]
    columns["verdict"] = [_verdict(row) for row in rows]
    result = Table(box=None, pad_edge=False, header_style="bold")
    filled = {heading: cells for heading, cells in columns.items() if any(cells)}
    for heading, cells in filled.items():
        is_text = heading in ("case", "beside", "unit", "verdict")
        least = None if is_text else max(map(len, cells))
        result.add_column(
            heading, justify="left" if is_text else "right", min_width=least, no_wrap=heading == "verdict"
        )
    for line in zip(*filled.values(), strict=True):
        result.add_row(*line)
    return result


def _beside_one(row: Row, peer: str) -> str:
    return _number(row["peers"].get(peer)) if row.get("peers") else ""


def _beside(row: Row) -> str:
    return ", ".join(f"{peer} {_number(value)}" for peer, value in row.get("peers", {}).items())


def _verdict(row: Row) -> str:
    verdict = str(row.get("verdict", ""))
    color = "green" if verdict in _GOOD else "red"
    return f"[{color}]{escape(verdict)}[/]" if verdict else ""


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    return escape(str(value))
