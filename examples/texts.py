"""Scalar functions of one's own, by row and on columns.

    CREATE FUNCTION slug(STRING) RETURNS STRING FROM PYTHON 'texts:slug';
    CREATE FUNCTION spread(DOUBLE, DOUBLE) RETURNS DOUBLE FROM PYTHON 'texts:spread' VECTORIZED;

`headrace run` finds the module beside the script.
"""

from __future__ import annotations

import re

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def slug(title: str) -> str:
    """Return a title as it stands in an address."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def spread(low: pl.Series, high: pl.Series) -> pl.Series:
    """Return by how much one value is above another, as a share of their mean."""
    return (high - low) / ((high + low) / 2)


def twice(numbers: pa.Array) -> pa.Array:
    """Return the numbers, doubled."""
    return pc.multiply(numbers, 2)
