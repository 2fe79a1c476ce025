"""Stored tables of commands: large ones are kept beside the log, by digest, and commands name them only.

Otherwise a table would travel with the command to every bucket, and lie in the state of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from headrace.catalog.definitions import Table
from headrace.commands.command import AddQuery, Command
from headrace.graph.graph import Graph
from headrace.operators.specs import Impute, Membership, Spec, TableJoin
from headrace.operators.tuples.archives import StoredRows
from headrace.storage import contents, files

#: Smaller tables stay in the command.
INLINE_BYTES = 16 * 1024
_Keep = Callable[[bytes], str]


def tables_in(checkpoint: Path) -> Path:
    """Return where a checkpoint keeps tables."""
    return checkpoint / "tables"


def with_kept_tables(command: Command, checkpoint: Path) -> Command:
    """Return a command whose large tables are kept in a checkpoint; ids of vertices stay as they are."""
    if not isinstance(command, AddQuery):
        return command

    def keep(data: bytes) -> str:
        return contents.keep(tables_in(checkpoint), data)

    versions = tuple(
        replace(version, rows=b"", digest=keep(version.rows)) if version.rows else version for version in command.tables
    )

    start_on, stop_on = (
        None if graph is None else _graph(graph, keep)
        for graph in (command.activation.start_on, command.activation.stop_on)
    )
    activation = replace(command.activation, start_on=start_on, stop_on=stop_on)
    return replace(command, graph=_graph(command.graph, keep), activation=activation, tables=versions)


def table_key(table: Table) -> str:
    """Return the name of the versions of a table: tables of one name that read something else have others."""
    digest = hashlib.blake2b(msgspec.json.encode([table.schema, table.connector]), digest_size=6).hexdigest()
    return f"{table.name}-{digest}"


def with_versions(graph: Graph, digests: Mapping[str, str]) -> Graph:
    """Return a graph whose operators have the rows of the tables in force."""
    if not digests:
        return graph
    return Graph(tuple(replace(vertex, spec=_with_version(vertex.spec, digests)) for vertex in graph))


def _with_version(spec: Spec, digests: Mapping[str, str]) -> Spec:
    match spec:
        case TableJoin(table=str() as key) | Membership(table=str() as key) if key in digests:
            return replace(spec, digest=digests[key])
        case Impute(archive=StoredRows(table=str() as key) as archive) if key in digests:
            return replace(spec, archive=replace(archive, digest=digests[key]))
        case _:
            return spec


def sweep_tables(checkpoint: Path, texts: Callable[[], Sequence[bytes]]) -> int:
    """Delete tables whose digest is in none of the texts, which are asked for if there are tables.

    Return how many these were.
    """
    known = files.names(tables_in(checkpoint))
    if not known:
        return 0
    named = texts()
    stale = [digest for digest in known if not any(digest.encode() in text for text in named)]
    files.remove(*(tables_in(checkpoint) / digest for digest in stale), durable=False)
    return len(stale)


def texts_of_log(checkpoint: Path) -> list[bytes]:
    """Return all commands that are kept, and snapshots."""
    log = checkpoint / "commands"
    return [files.read_if_exists(log / name) or b"" for name in files.names(log)]


def _graph(graph: Graph, keep: _Keep) -> Graph:
    vertices = tuple(replace(vertex, spec=_spec(vertex.spec, keep)) for vertex in graph)
    return Graph(vertices) if vertices != graph.vertices else graph


def _spec(spec: Spec, keep: _Keep) -> Spec:
    match spec:
        case TableJoin() | Membership() if len(spec.rows) >= INLINE_BYTES:
            return replace(spec, rows=b"", digest=keep(spec.rows))
        case Impute(archive=StoredRows() as archive) if len(archive.rows) >= INLINE_BYTES:
            return replace(spec, archive=replace(archive, rows=b"", digest=keep(archive.rows)))
        case _:
            return spec
