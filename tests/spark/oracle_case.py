"""Random queries of every shape in one session, compared with the oracle."""

import random
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings

from headrace.catalog.catalog import Catalog
from headrace.language.parser import parse
from headrace.plan.binding.binder import bind
from headrace.session import Session
from headrace.testing.oracle.oracle import answer, as_multiset, rows_of
from headrace.testing.strategies import modifier_queries
from headrace.testing.strategies import queries as shapes
from headrace.testing.strategies.queries import STREAMS, stream_histories, stream_statements
from headrace.testing.streams import page as page_of

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
SHAPES = [
    shapes.projections(),
    shapes.aggregates(),
    shapes.joins(),
    shapes.three_way_joins(),
    shapes.sequences(),
    shapes.unions(),
    shapes.distincts(),
    shapes.aggregates_of_joins(),
    shapes.nested(),
    modifier_queries.modifiers(),
    modifier_queries.window_modifiers(),
    modifier_queries.suppressions(),
]


def draw(strategy, number, count):
    """The same `count` examples of a strategy for the same number."""
    found = []

    @seed(number)
    @settings(
        max_examples=count * 3,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=False,
    )
    @given(strategy)
    def collect(example):
        found.append(example)

    collect()
    random.Random(number).shuffle(found)
    return found[:count]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many queries ran, how many of them have results, and those whose results are wrong."""

    queries: int
    nonempty: int
    wrong: list[str]


def compare(session: Session, number: int, *, per_shape: int = 3) -> Comparison:
    """Run queries of every shape over random histories in a session, to its end; the number chooses them."""
    texts = [text for shape in SHAPES for text in draw(shape, number, per_shape)]
    histories = max(draw(stream_histories(most=40), number, 20), key=lambda drawn: min(map(len, drawn.values())))
    delivered: list[list] = [[] for _ in texts]
    queries = [f"CREATE QUERY q{i} AS {text} INTO MEMORY" for i, text in enumerate(texts)]
    session.execute(";\n".join([stream_statements(), *queries]))
    for i, rows in enumerate(delivered):

        def take(_, pages, rows=rows):
            return rows.extend(row for p in pages for row in rows_of(p.rows.iter_rows(named=True)))

        session.deployment.delivery.subscribers[f"q{i}"] = [take]
    chunks = random.Random(number)
    waiting = {stream.name: list(histories[stream.name]) for stream in STREAMS}
    while any(waiting.values()):
        stream = chunks.choice([stream for stream in STREAMS if waiting[stream.name]])
        size = chunks.randint(1, 12)
        part, waiting[stream.name] = waiting[stream.name][:size], waiting[stream.name][size:]
        session.push(stream.name, page_of(stream.schema, part).visible().to_dicts())
    session.drain(timeout=200)
    nonempty, wrong = 0, []
    for text, rows in zip(texts, delivered, strict=True):
        expected = as_multiset(answer(bind(parse(text)[0].select, text, CATALOG), histories))
        nonempty += bool(expected)
        if as_multiset(rows) != expected:
            wrong.append(f"seed {number}, query {text}: missing {expected - as_multiset(rows)}")
    return Comparison(len(texts), nonempty, wrong)
