"""An application: generated data, a script to run over it, and the expected results."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from headrace.session import Session

#: The rows that each query delivered, in order of delivery.
Results: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Check:
    """A fact that was planted in the data, and what the queries found."""

    what: str
    planted: object
    found: object

    @property
    def holds(self) -> bool:
        return self.planted == self.found


class Application(ABC):
    """A script over generated data; the same seed gives the same data."""

    name: str
    title: str
    #: The folder in this package that holds the script, and the script's name without `.sql`.
    folder: str
    #: Queries and rules whose results are shown.
    shown: tuple[str, ...]
    #: Queries and rules whose results are only compared.
    watched: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """Return the SQL; its paths are relative to the folder that `prepare` fills."""
        return files("headrace.applications").joinpath(self.folder, f"{self.folder}.sql").read_text()

    @abstractmethod
    def prepare(self, folder: Path, seed: int) -> None:
        """Write the data that the script reads."""

    @abstractmethod
    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Compare the results with the planted facts."""


def run(
    application: Application, session: Session, folder: Path, seed: int, *, timeout: float | None = None
) -> Results:
    """Write data and script into a folder, run the script to its end, and return the results of queries and rules."""
    folder.mkdir(parents=True, exist_ok=True)
    application.prepare(folder, seed)
    (folder / f"{application.folder}.sql").write_text(application.script)
    results: dict[str, list[Mapping[str, Any]]] = {query: [] for query in (*application.shown, *application.watched)}
    for query, rows in results.items():
        session.subscribe(query, _append_to(rows))
    with contextlib.chdir(folder):  # paths in the script, and in the functions it calls, are relative
        session.execute(application.script)
        session.drain(timeout)
    return results


def _append_to(rows: list[Mapping[str, Any]]) -> Callable[[int, Sequence[Mapping[str, Any]]], None]:
    def take(batch: int, delivered: Sequence[Mapping[str, Any]]) -> None:
        rows.extend(delivered)

    return take
