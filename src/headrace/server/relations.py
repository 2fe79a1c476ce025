"""The relations of a snapshot: rows on shelves, stored tables, and `headrace.*`, where the server tells of itself."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
import polars as pl

from headrace.connectors.files.tables import read_table
from headrace.model.schema import Schema
from headrace.server import read
from headrace.server.views.control import DecisionView, GuardView, MigrationView, ShedQueryView
from headrace.server.views.definitions import RuleView
from headrace.server.views.deployment import PartitionView, SettingView
from headrace.server.views.figures import QueryFigures, StandingView, StreamFigures
from headrace.server.views.view import View

if TYPE_CHECKING:
    from headrace.server.server import Server
    from headrace.server.service import Service

Made: TypeAlias = Callable[[], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Relation:
    """How the rows of a relation are made, and, where that may fail or take long, a relation without rows."""

    make: Made
    empty: Made


_TYPES: dict[Any, Any] = {bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64(), str: pl.String()}


def relations_of(server: Server) -> dict[str, Relation]:
    """Return the relations of a snapshot; all shelves are read at the last micro-batch that ended.

    A table that a stream feeds is state of its queries, and is none of them.
    """
    service = server.service
    batch = service.shelves.settled  # of a later one, some queries have results on their shelves, and others not yet
    found: dict[str, Relation] = {}
    for table in service.catalog.tables():
        if table.origin is None:
            found[table.name] = Relation(partial(read_table, table), partial(_empty, table.schema))
    for query in service.running.known:
        empty = partial(_empty, query.schema)

        def on_shelf(name: str = query.query, empty: Made = empty) -> pl.DataFrame:
            frame = service.shelves.frame(name, batch)
            return empty() if frame is None else frame

        found[query.query] = Relation(on_shelf, empty)
    return found | {f"headrace.{name}": Relation(make, make) for name, make in _own(server).items()}


def _empty(schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(schema=schema.polars())


def _own(server: Server) -> dict[str, Made]:
    service = server.service
    beat, running, statistics = service.beats.latest, service.running, service.statistics
    control = service.session.deployment.control
    reports = service.session.deployment.delivery.reports
    return {
        "streams": lambda: frame_of(StreamFigures, beat.streams),
        "queries": lambda: frame_of(QueryFigures, beat.queries),
        "promises": lambda: frame_of(StandingView, beat.promises),
        "vertices": lambda: _vertices(service),
        "decisions": lambda: frame_of(
            DecisionView, read.decisions_view(control.decisions.numbered(), 0, None, 10_000).decisions
        ),
        "migrations": lambda: frame_of(MigrationView, map(read.migration_view, control.migrations.all())),
        "feedback": lambda: frame_of(GuardView, read.feedback_view(running, statistics).guards),
        "shedding": lambda: frame_of(ShedQueryView, read.shedding_view(running, statistics).queries),
        "rules": lambda: frame_of(
            RuleView, (read.rule_view(rule, running, statistics) for rule in service.catalog.rules())
        ),
        "partitions": lambda: frame_of(
            PartitionView, read.partition_views([note for report in reports for note in report.buckets])
        ),
        "settings": lambda: frame_of(SettingView, read.setting_views(running)),
        "history": lambda: _history(server),
    }


def frame_of(kind: type[View], rows: Iterable[View]) -> pl.DataFrame:
    """Return views as rows; what is no plain value is JSON."""
    fields = msgspec.structs.fields(kind)
    values: Sequence[View] = list(rows)
    return pl.DataFrame(
        [_column(field.name, field.type, [getattr(row, field.name) for row in values]) for field in fields]
    )


def _column(name: str, kind: Any, values: Sequence[Any]) -> pl.Series:
    dtype = _dtype(kind)
    if dtype is None:
        return pl.Series(name, [msgspec.json.encode(value).decode() for value in values], dtype=pl.String())
    return pl.Series(name, values, dtype=dtype)


def _dtype(kind: Any) -> pl.DataType | None:
    """Return the type of a column; None for what is written as JSON."""
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [each for each in get_args(kind) if each is not types.NoneType]
        return _dtype(kinds[0]) if len(kinds) == 1 else None
    if get_origin(kind) is Literal:
        return pl.String()
    found: pl.DataType | None = _TYPES.get(kind)
    return found


def _vertices(service: Service) -> pl.DataFrame:
    from headrace.server.views.definitions import VertexView
    from headrace.server.views.figures import VertexFigures

    view = read.graph_view(None, service.running, service.beats.figures)
    vertices, figures = frame_of(VertexView, view.vertices), frame_of(VertexFigures, view.figures)
    return vertices.drop("span").join(figures, on="id", how="left")


def _history(server: Server) -> pl.DataFrame:
    """Return the figures of the last quarter of an hour, a row for each figure and second."""
    view = server.history.view(["*"], 1, 0)
    at = pl.Series("at", view.times, dtype=pl.Int64()).cast(pl.Datetime("ms"))
    empty = pl.DataFrame(schema={"at": pl.Datetime("ms"), "series": pl.String(), "value": pl.Float64()})
    return pl.concat(
        [empty]
        + [
            pl.DataFrame({"at": at, "value": pl.Series(series.values, dtype=pl.Float64())})
            .with_columns(pl.lit(series.name).alias("series"))
            .select("at", "series", "value")
            .drop_nulls("value")
            for series in view.series
        ]
    )
