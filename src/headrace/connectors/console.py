"""CONSOLE: results as aligned text, one block for each micro-batch that has some."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.options import check_names, whole
from headrace.errors import SinkFault
from headrace.model.page import Page
from headrace.model.schema import Schema

OPTIONS = ("rows",)
#: Characters of tuples that would move the cursor, or command the terminal in other ways, are shown as escapes.
_CONTROLS = {code: ascii(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}
_is_silent = False


def silence() -> None:
    """Let no sink of this process write to standard output: whoever wants results follows them in another way."""
    global _is_silent
    _is_silent = True


def check_console(connector: Connector) -> None:
    """Refuse wrong options."""
    check_names(connector, OPTIONS)
    whole(connector.options, "rows", 20, least=1)


class ConsoleSink:
    """Writes to `out`, or to whatever standard output is when a block is written."""

    def __init__(
        self, query: str, connector: Connector, schema: Schema, checkpoint: Path, out: TextIO | None = None
    ) -> None:
        check_console(connector)
        self._query = query
        self._schema = schema
        self._most = whole(connector.options, "rows", 20, least=1)
        self._out = out
        self._last = -1

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        """Show a batch; one that was shown cannot be taken back and is not shown again."""
        frames = [page.visible() for page in pages if len(page)]
        if batch <= self._last:
            return
        out = self._out or (None if _is_silent else sys.stdout)
        if frames and out:
            _show(block(f"{self._query} #{batch}", pl.concat(frames).select(self._schema.names), self._most), out)
        self._last = batch

    def close(self) -> None:
        """Leave the text stream open: it is not ours."""


def _show(text: str, out: TextIO) -> None:
    """Write a text; characters that the encoding does not have are written as escapes."""
    encoding = out.encoding or "utf-8"
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    except OSError as error:
        raise SinkFault(
            f"CONSOLE cannot write to the standard output: {error.strerror or error}",
            hint="let it go to a terminal, a file or a process that reads it, or leave INTO CONSOLE out",
        ) from error


def block(title: str, rows: pl.DataFrame, most: int) -> str:
    """Format rows under their column names, numbers to the right."""
    shown = rows.head(most)
    cells = [[name, *(_cell(value) for value in shown[name])] for name in rows.columns]
    widths = [max(map(len, column)) for column in cells]
    right = [dtype.is_numeric() for dtype in rows.dtypes]
    lines = [title]
    for row in zip(*cells, strict=True):
        line = "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True))
        lines.append(f"  {line.rstrip()}")
    if rows.height > most:
        lines.append(f"  ... {rows.height - most} more")
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6g}"
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return value.hex()
        case pl.Series():  # an ARRAY
            return _cell(value.to_list())
        case _:
            return str(value).translate(_CONTROLS)
