"""ROUTES: the whole HTTP interface as one literal table."""

from __future__ import annotations

from typing import Any

from headrace.server.asks import ForecastAsk, LoginAsk, NoAsk, Rows, SnapshotAsk, StatementsAsk, TextAsk
from headrace.server.route import Parameter, Route
from headrace.server.routes import access, definitions, deployment, documents, results, rows, snapshots, statements
from headrace.server.views.control import DecisionsView, FeedbackView, MigrationView, SheddingView
from headrace.server.views.definitions import (
    GraphView,
    OutboxView,
    QueryView,
    RelationGraph,
    RuleView,
    StreamView,
    TableView,
)
from headrace.server.views.deployment import (
    DeploymentView,
    Done,
    Health,
    HistoryView,
    ListingView,
    LoginAnswer,
    PartitionView,
    SettingView,
    TokenView,
)
from headrace.server.views.results import ResultsView, SnapshotView
from headrace.server.views.statements import (
    Diagnosis,
    ExplainAnswer,
    PushAnswer,
    StatementsAnswer,
    TrialView,
    WordsView,
)

API = "/api/v1"
_AFTER = Parameter("after", "only what came after this number", "integer")
_LIMIT = Parameter("limit", "at most so many", "integer")

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{API}/deployment", "read", "The server: version, state, load and its latest beat.",
          deployment.deployment, answers=DeploymentView),
    Route("GET", f"{API}/graph", "read", "Streams, tables, views, queries, events, rules and sinks: who reads whom.",
          deployment.graph, answers=RelationGraph),
    Route("GET", f"{API}/operators", "read", "The operators of all queries, with their figures.",
          deployment.operators, answers=GraphView),
    Route("GET", f"{API}/streams", "read", "All streams.", definitions.streams, answers=tuple[StreamView, ...]),
    Route("GET", f"{API}/streams/{{name}}", "read", "A stream: columns, source, and its figures.",
          definitions.stream, answers=StreamView),
    Route("POST", f"{API}/streams/{{name}}/rows", "write",
          "Append rows to a MEMORY stream, all or none: a JSON array, NDJSON or an Arrow stream. Durable when "
          "answered. A request with the Idempotency-Key of an earlier one of the same day adds nothing.",
          rows.push, asks=Rows, answers=PushAnswer),
    Route("GET", f"{API}/tables", "read", "All stored tables.", definitions.tables, answers=tuple[TableView, ...]),
    Route("GET", f"{API}/queries", "read", "All queries, views and events.",
          definitions.queries, answers=tuple[QueryView, ...]),
    Route("GET", f"{API}/queries/{{name}}", "read", "A query: text, state, columns, sinks, promises.",
          definitions.query, answers=QueryView),
    Route("GET", f"{API}/queries/{{name}}/graph", "read", "The operators of a query, with their figures.",
          definitions.query_graph, answers=GraphView),
    Route("GET", f"{API}/queries/{{name}}/results", "read",
          "The newest results of a query, or, with follow, results as they come. Accept chooses JSON, NDJSON, CSV, an "
          "Arrow stream or server-sent events.",
          results.results, answers=ResultsView,
          parameters=(
              _AFTER, _LIMIT,
              Parameter("follow", "send results as they come; complete: without a gap, also over a restart"),
              Parameter("safe", "integers beyond 2^53 as strings", "boolean"),
          )),
    Route("GET", f"{API}/queries/{{name}}/forecast", "read", "What a running query will do, from what was measured.",
          statements.query_forecast, answers=Any),
    Route("GET", f"{API}/queries/{{name}}/plan", "read", "The plan of a query, with counters.",
          statements.plan, answers=ExplainAnswer),
    Route("GET", f"{API}/rules", "read", "All rules, and what became of their detections.",
          definitions.rules, answers=tuple[RuleView, ...]),
    Route("GET", f"{API}/rules/{{name}}", "read", "A rule.", definitions.rule, answers=RuleView),
    Route("GET", f"{API}/rules/{{name}}/detections", "read", "The newest detections of a rule, as its shelf has them.",
          results.detections, answers=ResultsView, parameters=(_AFTER, _LIMIT)),
    Route("GET", f"{API}/outbox", "read", "The calls of rules that wait, and the newest that were given up.",
          definitions.outbox, answers=OutboxView),
    Route("GET", f"{API}/decisions", "read", "What the controller decided, and why.",
          deployment.decisions, answers=DecisionsView,
          parameters=(_AFTER, _LIMIT, Parameter("query", "only those for this query"))),
    Route("GET", f"{API}/migrations", "read", "The changes of plans: from what, to what, how long, and whether done.",
          deployment.migrations, answers=tuple[MigrationView, ...],
          parameters=(Parameter("query", "only those of this query"),)),
    Route("GET", f"{API}/feedback", "read", "What feedback drops, and what that saved.",
          deployment.feedback, answers=FeedbackView),
    Route("GET", f"{API}/shedding", "read", "What is shed, by place and by query.",
          deployment.shedding, answers=SheddingView),
    Route("GET", f"{API}/partitions", "read", "The buckets: state, work, machine.",
          deployment.partitions, answers=tuple[PartitionView, ...]),
    Route("GET", f"{API}/settings", "read", "The settings in force.",
          deployment.settings, answers=tuple[SettingView, ...]),
    Route("GET", f"{API}/statistics", "read", "The counters of every operator, as SHOW STATISTICS lists them.",
          deployment.statistics, answers=ListingView),
    Route("GET", f"{API}/counters", "read", "The totals of streams, queries, rules and operators, as numbers.",
          deployment.counters, answers=Any),
    Route("GET", f"{API}/history", "read", "Figures over time: every second for 15 minutes, every 10 for 6 hours.",
          deployment.history, answers=HistoryView,
          parameters=(
              Parameter("series", "names, separated by commas; one that ends in * stands for many"),
              Parameter("step", "1 or 10 seconds", "integer"),
              Parameter("from", "the first instant, in milliseconds since 1970", "integer"),
          )),
    Route("GET", f"{API}/words", "read", "What can be typed: keywords, functions, names, options.",
          deployment.words, answers=WordsView),
    Route("GET", f"{API}/tokens", "write", "The names and roles of all tokens.",
          deployment.tokens, answers=tuple[TokenView, ...]),
    Route("POST", f"{API}/statements", "read",
          "Run statements together, all or none. What does more than read needs the role write.",
          statements.statements, asks=StatementsAsk, answers=StatementsAnswer),
    Route("POST", f"{API}/check", "read", "What is wrong with a text; nothing is changed.",
          statements.check, asks=TextAsk, answers=Diagnosis),
    Route("POST", f"{API}/explain", "read", "How the queries of a text would run.",
          statements.explain, asks=TextAsk, answers=ExplainAnswer),
    Route("POST", f"{API}/try", "write",
          "The first records of the stream that a CREATE STREAM would make, and those that do not fit; no effect.",
          statements.try_source, asks=TextAsk, answers=TrialView),
    Route("POST", f"{API}/snapshot", "read",
          "The rows of a SELECT, in DuckDB's SQL, over what shelves, stored tables and headrace.* hold now.",
          snapshots.snapshot, asks=SnapshotAsk, answers=SnapshotView),
    Route("POST", f"{API}/forecast", "read", "Whether the promises of a text's queries would hold.",
          statements.forecast, asks=ForecastAsk, answers=Any),
    Route("POST", f"{API}/retry", "write", "Start a deployment again that has failed.",
          deployment.retry, asks=NoAsk, answers=Done),
    Route("POST", f"{API}/stop", "write", "Stop the server: the micro-batch is finished, the checkpoint released.",
          deployment.stop, asks=NoAsk, answers=Done),
    Route("WS", f"{API}/live", "read", "The live feed: beats, figures, results, decisions.", documents.live),
    Route("GET", f"{API}/openapi.json", "read", "This interface as an OpenAPI document.",
          documents.openapi, answers=Any),
    Route("POST", f"{API}/login", None, "Exchange a token for a cookie.",
          access.login, asks=LoginAsk, answers=LoginAnswer),
    Route("POST", f"{API}/logout", "read", "End the cookie.", access.logout, asks=NoAsk, answers=LoginAnswer),
    Route("GET", "/metrics", "read", "Metrics for Prometheus.", documents.metrics, media="text/plain"),
    Route("GET", "/health/live", None, "Whether the process answers.", access.live, answers=Health),
    Route("GET", "/health/ready", None, "Whether queries run, or could; 503 if not.", access.ready, answers=Health),
)  # fmt: skip
