"""What an application is: data to write, a script to run, and what must come out of it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from headrace.session import Session

#: The rows that each query delivered, in the order of their coming.
Results: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was planted in the data, and what the queries made of it."""

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
    #: Those whose results are only compared.
    watched: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """The SQL; it names files from the folder that `prepare` fills."""
        return files("headrace.applications").joinpath(self.folder, f"{self.folder}.sql").read_text()

    @abstractmethod
    def prepare(self, folder: Path, seed: int) -> None:
        """Write the data that the script reads."""

    @abstractmethod
    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Compare what came out with what was planted."""


def run(
    application: Application, session: Session, folder: Path, seed: int, *, timeout: float | None = None
) -> Results:
    """Write the data and the script into a folder, run the script to its end, and return what its queries and rules delivered."""
    folder.mkdir(parents=True, exist_ok=True)
    application.prepare(folder, seed)
    (folder / f"{application.folder}.sql").write_text(application.script)
    results: dict[str, list[Mapping[str, Any]]] = {query: [] for query in (*application.shown, *application.watched)}
    for query, rows in results.items():
        session.subscribe(query, lambda _, some, rows=rows: rows.extend(some))  # type: ignore[misc]
    with contextlib.chdir(folder):  # the script's paths, and those of the functions it calls, are from where it lies
        session.execute(application.script)
        session.drain(timeout)
    return results
