"""Folders into which queries and rules write files.

The files of all of them have the names of micro-batches. Two in one folder would replace each other's files, so a
folder has one writer. A deployment that begins anew also begins with the first names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.catalog.definitions import Connector
from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.driver.progress import has_progress
from headrace.errors import NotSupported, Span
from headrace.secrets import has_reference
from headrace.storage import files
from headrace.storage.location import location, resolved


def check_folders(command: AddQuery, deployed: Running, spans: Sequence[Span]) -> None:
    """Refuse a query or rule that would write into the folder of another, or twice into one.

    `spans` are those of its sinks, in their order, or one for all.
    """
    others = {
        folder: query.query
        for query in deployed.added
        if query.query != command.query
        for folder in _folders(query.sinks)
    }
    own = _folders(command.sinks)
    for number, folder in enumerate(own):
        span = spans[min(number, len(spans) - 1)]
        if folder in own[:number]:
            raise NotSupported(
                f"{command.query} would write into {folder} twice",
                span=span,
                hint="leave one out, or name another folder",
            )
        if folder in others:
            raise NotSupported(
                f"{others[folder]} writes into {folder} already: the files of both would have the same names",
                span=span,
                hint="name another folder, or write one query of both with UNION ALL",
            )


def earlier_files(command: AddQuery, checkpoint: Path) -> list[str]:
    """Return the folders with results of an earlier deployment that the first micro-batches of a new one replace."""
    if has_progress(checkpoint):
        return []
    return [folder for folder in _folders(command.sinks) if any(map(_is_result, _names(folder)))]


def _folders(sinks: Sequence[Connector]) -> list[str]:
    """Return the folders of sinks, without links; what a secret names is not known here."""
    paths = [str(sink.options.get("path", "")) for sink in sinks if sink.kind == "FILES"]
    return [path if has_reference(path) else str(resolved(location(path))) for path in paths]


def _names(folder: str) -> Sequence[str]:
    try:
        return list(files.names(location(folder)))
    except OSError:
        return []


def _is_result(name: str) -> bool:
    return name.startswith("part-")
