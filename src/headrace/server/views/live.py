"""The live feed: messages of the server."""

from __future__ import annotations

from typing import TypeAlias

from headrace.server.views.control import DecisionView
from headrace.server.views.definitions import OutboxView, RuleView
from headrace.server.views.figures import Beat, VertexFigures
from headrace.server.views.problem import Problem
from headrace.server.views.results import ResultBatch
from headrace.server.views.view import Role, State, View


class Hello(View, frozen=True, tag_field="t", tag="hello"):
    """The first message on a WebSocket."""

    version: str
    role: Role
    beat: Beat


class BeatMessage(View, frozen=True, tag_field="t", tag="beat"):
    """A beat."""

    beat: Beat


class GraphMessage(View, frozen=True, tag_field="t", tag="graph"):
    """Figures of the vertices of a query (None: of all), after a micro-batch."""

    query: str | None
    batch: int
    figures: tuple[VertexFigures, ...]
    bottleneck: str | None


class ResultsMessage(View, frozen=True, tag_field="t", tag="results"):
    """Results of a query."""

    query: str
    result: ResultBatch


class DecisionsMessage(View, frozen=True, tag_field="t", tag="decisions"):
    """New decisions."""

    decisions: tuple[DecisionView, ...]
    newest: int


class RulesMessage(View, frozen=True, tag_field="t", tag="rules"):
    """The rules, after a micro-batch in which one of their counters changed."""

    rules: tuple[RuleView, ...]
    outbox: OutboxView


class CatalogMessage(View, frozen=True, tag_field="t", tag="catalog"):
    """Definitions have changed: fetch them again."""

    catalog: int


class StateMessage(View, frozen=True, tag_field="t", tag="state"):
    """The state of the server has changed."""

    state: State
    stage: str | None
    problem: Problem | None


class LiveError(View, frozen=True, tag_field="t", tag="error"):
    """A message of the client could not be followed."""

    topic: str | None
    problem: Problem


LiveMessage: TypeAlias = (
    Hello
    | BeatMessage
    | GraphMessage
    | ResultsMessage
    | DecisionsMessage
    | RulesMessage
    | CatalogMessage
    | StateMessage
    | LiveError
)
