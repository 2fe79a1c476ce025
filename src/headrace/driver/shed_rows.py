"""The tuples that a micro-batch shed, as rows of the stream `headrace.shed`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from headrace.catalog.definitions import SHED
from headrace.commands.running import Running
from headrace.commands.shedders_in_force import readers_of, shedders_in
from headrace.worker.wire import Report


def shed_rows(reports: Sequence[Report], running: Running) -> pl.DataFrame:
    """Return one row for each query and each arc with a shedder that tuples reached."""
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for counted in (counted for report in reports for counted in report.all_shed()):
        arrived, dropped = counts.get((counted.reader, counted.port), (0, 0))
        counts[counted.reader, counted.port] = (arrived + counted.seen, dropped + counted.dropped)
    rows = []
    settings, readers = (shedders_in(running), readers_of(running)) if counts else ({}, {})
    time = max((report.time for report in reports), default=0)
    for (reader, port), (arrived, dropped) in sorted(counts.items()):
        setting = settings[reader, port]
        error = relative_error(setting.shedding.kind, arrived, dropped)
        rows += [
            (time, query, f"{reader}.{port}", setting.shedding.kind, setting.share, arrived, dropped, error)
            for query in readers[reader]
        ]
    schema = {name: pl.Int64() if name == "at" else dtype for name, dtype in SHED.schema.polars().items()}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("at").cast(SHED.schema.polars()["at"]))


def relative_error(kind: str, arrived: int, dropped: int) -> float:
    """Return the relative error of a count.

    Random shedding scales the count up, so it has a standard error. Other shedding leaves out what was dropped.
    """
    kept = arrived - dropped
    if kind != "RANDOM" or not kept:
        return dropped / arrived if arrived else 0.0
    return math.sqrt(dropped / arrived / kept)  # Horvitz-Thompson: each tuple that stays counts for arrived / kept
