"""Snapshots: a SELECT in DuckDB's SQL over what shelves, stored tables and the server itself hold now; it ends.

Each snapshot has an engine of its own, in memory, that can reach nothing outside and runs only statements that read.
All shelves are read at one micro-batch, so what several queries gave fits together.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from headrace import extras
from headrace.redaction import redact
from headrace.server.problems import Fault
from headrace.server.relations import Relation

#: Limits of a snapshot: seconds, memory of the engine, and how many run at once.
SECONDS, MEMORY, AT_ONCE = 5.0, "256MB", 2
#: At most so many rows in an answer.
MOST_ROWS = 100_000
#: The schema of the relations in which the server tells of itself.
OWN = "headrace"
_PIECE = 10_000
_CONFIGURATION = {
    "enable_external_access": "false",  # files, addresses, other databases
    "python_enable_replacements": "false",  # variables of this process
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    "memory_limit": MEMORY,
    "threads": "1",
}
_running = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a snapshot; `is_cut` if there were more than may be sent."""

    frame: pl.DataFrame
    is_cut: bool


def take_snapshot(text: str, relations: Mapping[str, Relation], limit: int = MOST_ROWS) -> Snapshot:
    """Run a statement over relations, which are made if the text mentions them."""
    duckdb: Any = extras.load("duckdb", "serve", "a snapshot")
    if not _running.acquire(blocking=False):
        raise Fault(429, "too many snapshots at once", headers={"Retry-After": "1"})
    try:
        with duckdb.connect(":memory:", config=_CONFIGURATION) as engine:
            _check(duckdb, engine, text)
            _register(engine, text, relations)
            engine.execute("SET lock_configuration = true")
            clock = threading.Timer(SECONDS, engine.interrupt)
            clock.start()
            try:
                return _run(engine, text, limit)
            finally:
                clock.cancel()
    except duckdb.InterruptException:
        raise Fault(408, f"the snapshot took more than {SECONDS:g} seconds", hint="read less: WHERE, LIMIT") from None
    except duckdb.OutOfMemoryException:
        raise Fault(413, f"the snapshot needs more than {MEMORY}", hint="read less: WHERE, fewer groups") from None
    except duckdb.Error as error:
        raise Fault(422, redact(str(error))[:2000], title="SnapshotFault", hint=_known(relations)) from None
    finally:
        _running.release()


def _check(duckdb: Any, engine: Any, text: str) -> None:
    """Refuse everything but one statement that reads."""
    statements = engine.extract_statements(text)
    if len(statements) != 1:
        raise Fault(422, f"a snapshot is one statement, not {len(statements)}")
    kinds = duckdb.StatementType
    if statements[0].type not in (kinds.SELECT, kinds.EXPLAIN):
        hint = "SELECT, WITH, VALUES, FROM, SHOW, DESCRIBE and EXPLAIN read; /api/v1/statements takes Headrace's own"
        raise Fault(422, "a snapshot only reads", hint=hint)


def _register(engine: Any, text: str, relations: Mapping[str, Relation]) -> None:
    """Give the engine the relations that a text mentions; all, without rows, if it asks which there are."""
    lower = text.lower()
    lists = lower.lstrip().startswith("show")
    engine.execute(f"CREATE SCHEMA {OWN}")
    for name, relation in relations.items():
        schema, _, own = name.partition(".")
        word = own if schema == OWN else name
        if lists or _escaped(word).lower() in lower:
            frame = relation.empty() if lists else relation.make()
            engine.register(f"__{name}" if schema == OWN else name, frame.to_arrow())
            if schema == OWN:
                engine.execute(f'CREATE TABLE {OWN}."{_escaped(own)}" AS SELECT * FROM "__{_escaped(name)}"')
                engine.unregister(f"__{name}")


def _run(engine: Any, text: str, limit: int) -> Snapshot:
    import pyarrow as pa

    relation = engine.sql(text)
    reader = relation.to_arrow_reader(_PIECE)
    pieces, rows = [], 0
    for piece in reader:
        pieces.append(piece)
        rows += piece.num_rows
        if rows > limit:
            break
    frame = pl.from_arrow(pa.Table.from_batches(pieces, reader.schema))
    assert isinstance(frame, pl.DataFrame)
    return Snapshot(frame.head(limit), rows > limit)


def _known(relations: Mapping[str, object]) -> str:
    own = sorted(name for name in relations if name.startswith(f"{OWN}."))
    others = sorted(relations.keys() - set(own))
    return f"there are {', '.join([*others[:30], *own])}"


def _escaped(name: str) -> str:
    return name.replace('"', '""')
