"""The composition root: text in, running queries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from headrace.runtime.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Message:
    """What a statement did, in a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a SHOW or DESCRIBE found."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A query now runs."""

    query: str


Outcome: TypeAlias = Message | Listing | Started


class Session:
    """Streams, tables and queries by name, and the deployment that runs them."""

    def __init__(self, checkpoint: Path | str | None = None, *, host: Literal["spark", "local"] = "spark", buckets: int | None = None) -> None:
        raise NotImplementedError

    def execute(self, text: str) -> list[Outcome]:
        """Run statements in order; a statement that fails raises and leaves the earlier ones done."""
        raise NotImplementedError

    def explain(self, text: str, *, form: Literal["text", "json"] = "text") -> str:
        """Show how a SELECT or a named query would run."""
        raise NotImplementedError

    def push(self, stream: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a MEMORY stream."""
        raise NotImplementedError

    def results(self, query: str) -> list[dict[str, Any]]:
        """What a query with a MEMORY sink has delivered so far; `__ts` not included."""
        raise NotImplementedError

    def subscribe(self, query: str, take: Callable[[int, list[dict[str, Any]]], None]) -> None:
        """Call `take(batch, rows)` with each micro-batch's results of a query, from a background thread."""
        raise NotImplementedError

    def statistics(self) -> Statistics:
        """Counters of the deployment as of the last finished micro-batch."""
        raise NotImplementedError

    def drain(self, timeout: float | None = None) -> None:
        """Read all that the sources hold now, close the streams so that every window ends, deliver, and stop."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the deployment ends (True) or `timeout` seconds pass (False); raises if it failed."""
        raise NotImplementedError

    def stop(self) -> None:
        """Finish the running micro-batch and stop; a session on the same checkpoint continues from here."""
        raise NotImplementedError

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
