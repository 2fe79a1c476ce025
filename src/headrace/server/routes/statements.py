"""Statements: run them, check them, explain them, forecast them."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import msgspec

from headrace.analysis.forecast.report import CapacityReport
from headrace.errors import HeadraceError
from headrace.graph.graph import Graph
from headrace.server.asks import ForecastAsk, StatementsAsk, TextAsk
from headrace.server.problems import Fault, problem_of
from headrace.server.read import planned_graph
from headrace.server.route import Call
from headrace.server.routes.definitions import query_name
from headrace.server.values import columns_of, rows_in
from headrace.server.views.statements import BadRecord, Diagnosis, ExplainAnswer, StatementsAnswer, TrialView
from headrace.session import Message
from headrace.session.forecast import Stated


def statements(call: Call) -> Future[StatementsAnswer] | StatementsAnswer:
    """Run statements, all or none."""
    ask: StatementsAsk = call.body
    return call.server.service.execute(ask.text, dry=ask.dry, check=call.server.fence(call.login))


def check(call: Call) -> Diagnosis:
    """Say what is wrong with a text."""
    ask: TextAsk = call.body
    if not ask.text.strip():
        return Diagnosis(None, False)
    try:
        call.server.fence(call.login, reads=True)(ask.text)
        return Diagnosis(None, call.server.service.session.check(ask.text))
    except HeadraceError as error:
        if error.text is None:
            error.text = ask.text
        return Diagnosis(problem_of(error), False)


def explain(call: Call) -> ExplainAnswer:
    """Say how the queries of a text would run."""
    ask: TextAsk = call.body
    call.server.fence(call.login, reads=True)(ask.text)
    session = call.server.service.session
    text = session.explain(ask.text)
    shown = session.explain(ask.text, form="json")
    plans = []
    decoder = msgspec.json.Decoder()
    for part in filter(None, shown.split("\n\n")):
        try:
            plans.append(decoder.decode(part))
        except msgspec.DecodeError:
            continue
    return _explained(text, plans)


def try_source(call: Call) -> TrialView:
    """Read the first records of a stream that a text would create."""
    ask: TextAsk = call.body
    call.server.fence(call.login)(ask.text)
    trial = call.server.service.session.try_stream(ask.text)
    bad = tuple(BadRecord(*each) for each in trial.bad)
    return TrialView(trial.stream.name, columns_of(trial.stream.schema), rows_in(trial.rows, safe=call.safe), bad)


def forecast(call: Call) -> CapacityReport:
    """Predict whether the promises of a text's queries would hold beside those that run."""
    ask: ForecastAsk = call.body
    call.server.fence(call.login, reads=True)(ask.text)
    return call.server.service.session.foretell(ask.text, Stated(ask.rates), speed=ask.speed)


def query_forecast(call: Call) -> Any:
    """Predict what a running query will do, from what was measured."""
    return msgspec.json.decode(_said(call, f"EXPLAIN CAPACITY (FORMAT JSON) {_quoted(call)}"))


def plan(call: Call) -> ExplainAnswer:
    """Return the plan of a query, with counters."""
    text = _said(call, f"EXPLAIN ANALYZE {_quoted(call)}")
    return _explained(text, [msgspec.json.decode(_said(call, f"EXPLAIN (FORMAT JSON) {_quoted(call)}"))])


def _explained(text: str, plans: list[Any]) -> ExplainAnswer:
    graphs = (planned_graph(msgspec.convert(plan["graph"], Graph)) for plan in plans)
    return ExplainAnswer(text, tuple(plans), tuple(graphs))


def _quoted(call: Call) -> str:
    name = query_name(call)
    if call.server.service.catalog.get(name) is None:
        raise Fault(409, f"{name} has no name of its own", hint="send its text to /api/v1/explain or /api/v1/forecast")
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _said(call: Call, statement: str) -> str:
    [outcome] = call.server.service.session.execute(statement)
    assert isinstance(outcome, Message)
    return outcome.text
