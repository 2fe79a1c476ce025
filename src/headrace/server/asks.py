"""Everything that clients send, as structs; what does not fit is refused before a handler sees it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

#: The longest text of statements.
LONGEST_TEXT = 512 * 1024
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Short = Annotated[str, Meta(max_length=200)]


class Ask(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request."""


class StatementsAsk(Ask, frozen=True):
    """Statements to run together, all or none; `dry` checks them and changes nothing."""

    text: Text
    dry: bool = False


class TextAsk(Ask, frozen=True):
    """A text to look at."""

    text: Text


class SnapshotAsk(Ask, frozen=True):
    """A statement in DuckDB's SQL that reads, and the most rows of the answer."""

    text: Text
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 10_000


class ForecastAsk(Ask, frozen=True):
    """A text of queries, the rates of its streams (tuples per second), and how fast the processor is."""

    text: Text
    rates: dict[str, Annotated[float, Meta(ge=0, le=1e12)]] = {}
    speed: Annotated[float, Meta(ge=1e-6, le=1e6)] = 1.0


class LoginAsk(Ask, frozen=True):
    """A token."""

    token: Short


class NoAsk(Ask, frozen=True):
    """An empty body, `{}`."""


class Topic(Ask, frozen=True):
    """Something to watch on a WebSocket: `query` for graph and results, `after` a micro-batch for results."""

    t: Literal["beat", "graph", "results", "decisions", "rules", "catalog", "state"]
    query: Short | None = None
    after: int | None = None

    @property
    def key(self) -> str:
        """Return the name under which it is dropped and gets credit."""
        return self.t if self.query is None else f"{self.t}:{self.query}"


class LiveAsk(Ask, frozen=True):
    """A message of a client on a WebSocket.

    Topics to watch and to drop by key (`results:best`), and credit: how many more messages of results it takes.
    """

    watch: tuple[Topic, ...] = ()
    drop: tuple[Short, ...] = ()
    credit: dict[Short, int] = {}


#: The rows of a push: a JSON array of objects.
Rows = list[dict[str, Any]]
