"""What statements give, and what can be typed."""

from __future__ import annotations

from typing import Any, TypeAlias

from headrace.server.views.definitions import GraphView
from headrace.server.views.problem import Problem
from headrace.server.views.view import Column, View


class MessageOutcome(View, frozen=True, tag_field="kind", tag="message"):
    """What a statement did, in a sentence."""

    text: str


class ListingOutcome(View, frozen=True, tag_field="kind", tag="listing"):
    """The rows of a SHOW, DESCRIBE or DEMAND."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class StartedOutcome(View, frozen=True, tag_field="kind", tag="started"):
    """A query that now runs; `follow` if it lives only while somebody follows its results."""

    query: str
    follow: bool = False


OutcomeView: TypeAlias = MessageOutcome | ListingOutcome | StartedOutcome


class StatementsAnswer(View, frozen=True):
    """The outcomes of statements, in order; `commands` is the number after which they are in force."""

    outcomes: tuple[OutcomeView, ...]
    dry: bool
    commands: int


class Diagnosis(View, frozen=True):
    """What is wrong with a text; nothing if `problem` is None."""

    problem: Problem | None
    changes: bool  # whether the text does more than read


class ExplainAnswer(View, frozen=True):
    """How the statements' queries would run: text for people, and graphs for pictures."""

    text: str
    plans: tuple[Any, ...]  # EXPLAIN JSON of each query
    graphs: tuple[GraphView, ...]  # the operators of each, in the same order


class BadRecord(View, frozen=True):
    """A record that does not fit the columns of a stream: what it is, why, and where it stands."""

    record: str
    reason: str
    origin: str


class TrialView(View, frozen=True):
    """The first records of a stream that is not created yet."""

    stream: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    bad: tuple[BadRecord, ...]


class PushAnswer(View, frozen=True):
    """How many rows were appended; `repeated` if an earlier request with the same key had done so."""

    rows: int
    repeated: bool = False


class FunctionWord(View, frozen=True):
    """A function, for completion."""

    name: str
    signature: str
    aggregate: bool


class RelationWord(View, frozen=True):
    """A name that a query can read, with its columns."""

    name: str
    kind: str
    columns: tuple[Column, ...]


class WordsView(View, frozen=True):
    """What can be typed: keywords, functions, names, settings, promise options."""

    keywords: tuple[str, ...]
    functions: tuple[FunctionWord, ...]
    relations: tuple[RelationWord, ...]
    rules: tuple[str, ...]
    types: tuple[str, ...]
    options: tuple[str, ...]
    settings: tuple[tuple[str, tuple[str, ...]], ...]
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    snapshots: tuple[str, ...]  # what a snapshot can read
