"""Rows as lines of JSON."""

from __future__ import annotations

import msgspec
import polars as pl

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_lines(rows: pl.DataFrame) -> bytes:
    """Return one line for each row; the digits of a DECIMAL are a number, not a text as the library writes them."""
    if not any(dtype == pl.Decimal for dtype in rows.dtypes):
        return rows.write_ndjson().encode()
    return _ENCODER.encode_lines(rows.to_dicts())
