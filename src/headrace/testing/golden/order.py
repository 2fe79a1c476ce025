"""The verb `schedule` of golden scripts: in which order the operators of the buckets take what was fed.

    schedule quick=5us slow.distinct=50us/0.1 budget=60us

Words give the cost of a tuple at all operators of a query, or at one kind of them, and how many results a tuple gives
(1 by default); `budget` is the work of the micro-batch that follows. A line per execution names the queries and the
operator, and the number of tuples. The results of the queries are not printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from headrace.commands.command import Cost, UseCosts
from headrace.commands.running import Running
from headrace.driver.deployed import Deployments
from headrace.driver.progress import guide
from headrace.engine.choosing import Step
from headrace.engine.engine import Engine
from headrace.graph.graph import VertexId
from headrace.hosts.local import LocalDeployment
from headrace.model.time import MICROSECOND
from headrace.session import Session
from headrace.testing.streams import parse_time

TUPLE_BYTES = 64.0


def schedule(session: Session, text: str) -> list[str]:
    """Run one micro-batch; return what the buckets executed, in order."""
    assert isinstance(session.deployment, LocalDeployment)
    running = Deployments(session.directory).newest()
    words = dict(word.split("=") for word in text.split())
    budget = words.pop("budget", None)
    guide(session.directory, None if budget is None else round(_nanoseconds(budget)), {})
    if words:
        session.deployment.send(UseCosts(_costs(words, running)))
    with recorded_steps() as steps:
        session.deployment.step()
    engines = [bucket.engine for bucket in session.deployment.kept.values()]
    return [
        f"{_name(step.vertex, running)} {step.tuples}"
        for engine, step in steps
        if engine in engines and step.kind == "page"
    ]


@contextmanager
def recorded_steps() -> Iterator[list[tuple[Engine, Step]]]:
    """Record what engines execute."""
    steps: list[tuple[Engine, Step]] = []
    execute = Engine.step

    def step(engine: Engine, budget: float | None = None) -> Step | None:
        done = execute(engine, budget)
        if done is not None:
            steps.append((engine, done))
        return done

    with patch.object(Engine, "step", step):
        yield steps


def _costs(words: Mapping[str, str], running: Running) -> dict[VertexId, Cost]:
    costs = {}
    for name, cost in words.items():
        query, _, kind = name.partition(".")
        service, _, selectivity = cost.partition("/")
        for vertex in running.own(query):
            if vertex.startswith(kind):
                costs[vertex] = Cost(_nanoseconds(service), float(selectivity or 1), TUPLE_BYTES, TUPLE_BYTES)
    return costs


def _nanoseconds(text: str) -> float:
    return parse_time(text) / MICROSECOND * 1e3


def _name(vertex: VertexId, running: Running) -> str:
    """Name a vertex by the queries that need it and the kind of its operator."""
    queries = [query.query for query in running.queries if vertex.partition("@")[0] in query.graph.by_id()]
    return f"{'+'.join(sorted(queries))}.{vertex.partition('-')[0]}"
