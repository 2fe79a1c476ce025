"""The way out if a query or a file makes every micro-batch fail: leave it out without running one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Query
from headrace.commands.running import Running
from headrace.connectors.files.source import FilesSource
from headrace.errors import NameFault
from headrace.language.names import did_you_mean
from headrace.storage.location import absolute, location


def names_to_drop(names: Sequence[str], catalog: Catalog, known: Collection[str]) -> list[str]:
    """Return the names of queries and rules as they were created, readers before what they read.

    `known` are those that a micro-batch may have. Raise a fault if a query or rule that stays reads one of them: it
    contains the same operators, and would fail too.
    """
    dropped = list(dict.fromkeys(_known_name(name, catalog, known) for name in names))
    for name in dropped:
        readers = [reader for reader in _all_readers(name, catalog) if reader not in dropped]
        if readers:
            raise NameFault(
                f"{name!r} is read by {', '.join(readers)}, which would fail too",
                hint="drop them with it: " + " ".join(f"--drop {reader}" for reader in readers),
            )
    return sorted(dropped, key=lambda name: len(_all_readers(name, catalog)))


def drop_statements(names: Sequence[str], catalog: Catalog, running: Running) -> str:
    """Return the statements that drop those of the queries and rules that have not been dropped yet."""
    deployed = {query.query for query in running.added}
    kinds = {name: "RULE" if catalog.has_rule(name) else "QUERY" for name in names if name in deployed}
    return "; ".join(f"DROP {kind} {quoted(name)}" for name, kind in kinds.items())


def leave_out_file(path: str, catalog: Catalog, running: Running, directory: Path) -> list[str]:
    """Let streams read nothing more of a file; return those that have found it."""
    streams = {
        (stream.name, stream.source): stream
        for stream in (*catalog.streams(), *(stream for query in running.added for stream in query.streams))
        if stream.connector.kind == "FILES"
    }
    where = str(absolute(location(path)))
    names = [stream.name for stream in streams.values() if FilesSource(stream, directory).leave_out(where)]
    if not names:
        raise NameFault(f"no stream of this checkpoint has found the file {where}", hint="the error names the file")
    return list(dict.fromkeys(names))


def _known_name(name: str, catalog: Catalog, deployed: Collection[str]) -> str:
    written = next((other for other in deployed if other.lower() == name.lower()), None)
    if written is not None:
        return written
    definition = catalog.get(name)
    if isinstance(definition, Query) and definition.is_view:
        readers = ", ".join(_all_readers(name, catalog)) or "none"
        raise NameFault(f"{name!r} does not run by itself", hint=f"drop the queries that read it: {readers}")
    raise NameFault(
        f"no query or rule {name!r} runs on this checkpoint",
        hint=did_you_mean(name, sorted(deployed), otherwise=f"there are {', '.join(sorted(deployed)) or 'none'}"),
    )


def _all_readers(name: str, catalog: Catalog) -> list[str]:
    """Return the queries and rules that read a query directly or through others."""
    reached: list[str] = []
    pending = [name]
    while pending:
        for reader in catalog.readers(pending.pop()):
            if reader not in reached:
                reached.append(reader)
                pending.append(reader)
    return reached


def quoted(name: str) -> str:
    """Return a name as a statement writes it."""
    return '"' + name.replace('"', '""') + '"'
