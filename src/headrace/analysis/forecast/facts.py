"""Facts about running queries, measured or stated, and assumptions about each kind of operator without any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.graph.graph import VertexId
from headrace.model.schema import Schema
from headrace.model.types import DataType, DecimalType, Type
from headrace.operators.specs import Spec

#: Seconds a tuple, by kind of operator: the order of magnitude on one core of a usual machine, with pages of many
#: tuples. A scan reads and parses.
SERVICE: Mapping[str, float] = {
    "scan": 5e-7,
    "filter": 2e-8,
    "project": 2e-8,
    "union": 1e-8,
    "unnest": 1e-7,
    "orderedunion": 1e-7,
    "pace": 1e-7,
    "reorder": 5e-8,
    "limit": 1e-8,
    "distinct": 1e-7,
    "condense": 1e-7,
    "rank": 4.5e-7,
    "deduplicate": 2e-7,
    "over": 4e-7,
    "windowover": 4.5e-7,
    "leading": 1e-7,
    "impute": 1e-7,
    "tablejoin": 2e-7,
    "membership": 2e-7,
    "changes": 1e-6,
    "partialaggregate": 2e-7,
    "paneaggregate": 5e-6,
    "slidingaggregate": 4e-7,
    "rowsaggregate": 3e-7,
    "whileaggregate": 5e-7,
    "sessionaggregate": 7e-7,
    "join": 2e-6,
    "joinchanges": 3e-6,
    "multijoin": 3e-6,
    "orderedjoin": 2e-6,
    "rowsjoin": 5e-6,
    "detect": 7e-7,
    "sequencejoin": 5e-7,
    "suppress": 4e-7,
    "matchrows": 2e-6,
    "hold": 5e-8,
    "punctuate": 3e-8,
}
OTHER_SERVICE = 1e-6  # seconds a tuple of a kind that SERVICE does not list
RATE = 1000.0  # tuples a second of a stream of which nothing is known
GROUPS = 100.0  # different values of the keys of a window
ELEMENTS = 3.0  # elements of an ARRAY
PASSING = 0.5  # share of tuples that satisfy a condition
MATCHES = 1.0  # partners that a tuple finds in a table, or among the tuples that it follows
PAIR = 6e-8  # seconds to make a pair in a join, beside the search for partners
INSTANT = 1e-5  # seconds a tuple of an event that is not a sequence of tuples, and is detected instant by instant
ENDING = 0.1  # share of tuples that end a run

_WIDTHS: dict[DataType, int] = {
    Type.BOOLEAN: 1,
    Type.INT: 4,
    Type.FLOAT: 4,
    Type.DATE: 4,
    Type.NULL: 1,
    Type.STRING: 24,
    Type.BINARY: 24,
}
STAMP = 8.0  # bytes of a timestamp


@dataclass(frozen=True, slots=True)
class VertexFacts:
    """What was measured of one vertex; None where nothing was."""

    service: float | None = None  # seconds a tuple
    selectivity: float | None = None
    held: float | None = None  # tuples in its state
    state_bytes: float | None = None
    taken: float | None = None  # tuples that it has taken in, to tell windows that are full from those that fill


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a model is made of, beside the graph."""

    rates: Mapping[str, float] = field(default_factory=dict)  # tuples a second, by stream
    vertices: Mapping[VertexId, VertexFacts] = field(default_factory=dict)
    services: Mapping[str, float] = field(
        default_factory=dict
    )  # seconds a tuple, by kind; they count more than what was measured
    selectivities: Mapping[str, float] = field(default_factory=dict)  # outputs a tuple, by kind; they too
    schemas: Mapping[str, Schema] = field(default_factory=dict)  # of streams
    skews: Mapping[str, float] = field(default_factory=dict)  # seconds, of streams
    speeds: Mapping[str, float] = field(default_factory=dict)  # seconds of timestamps per second, of streams; else 1
    values: Mapping[tuple[str, str], float] = field(default_factory=dict)  # different ones, by stream and column
    reading: float | None = None  # seconds a tuple to read a stream
    elsewhere: float = 0.0  # seconds that a micro-batch takes beside the operators
    groups: float = GROUPS


def kind_of(spec: Spec) -> str:
    """Return the name by which service times are stated; vertex ids begin with it."""
    return type(spec).__name__.lower()


def width(type_: DataType) -> float:
    """Return the bytes of a value in a column; a guess for text."""
    return 16.0 if isinstance(type_, DecimalType) else float(_WIDTHS.get(type_, 8))


def row_width(schema: Schema) -> float:
    """Return the bytes of a tuple with its timestamp."""
    return STAMP + sum(width(column.type) for column in schema)
