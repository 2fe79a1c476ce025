"""What the parts of an operator give up of some parcels, as one state, and its keys as columns of kept rows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.model.expressions.expression import Column
from headrace.operators.partitioning import Keys


def given_up(**parts: Sequence[pl.DataFrame] | pl.DataFrame | None) -> dict[str, pl.DataFrame]:
    """Return the rows that parts gave up, by the name of the part; nothing for those that gave none."""
    frames: dict[str, pl.DataFrame] = {}
    for name, rows in parts.items():
        if isinstance(rows, pl.DataFrame):
            frames[name] = rows
        elif rows:
            frames[name] = pl.concat(rows)
    return frames


def kept_as(keys: Keys, by: Keys, names: Sequence[str]) -> Keys:
    """Return some of the keys `by` as the columns under which an operator keeps them."""
    return tuple(Column(names[by.index(key)], key.type) for key in keys)
