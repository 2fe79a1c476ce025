"""What every view is, and the words that several use."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Measure: TypeAlias = Literal["latency", "memory", "throughput", "smoothness"]
State: TypeAlias = Literal["starting", "idle", "running", "failed", "ended", "stopping"]
Role: TypeAlias = Literal["read", "write"]
Half: TypeAlias = Literal["ingest", "bucket"]


class View(Struct, frozen=True):
    """Something that leaves the server."""


class Column(View, frozen=True):
    """A column of a stream, table or query."""

    name: str
    type: str
