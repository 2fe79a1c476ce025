"""Checks exhaustively, for small inputs, that heeding an assumption loses nothing that is needed and adds nothing.

All inputs of some length over a small domain, with every choice of which unneeded tuples the sources leave out, run
side by side in one engine: a column `case` keeps them apart. So it must be a key, or part of one, of every operator
that brings tuples together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from headrace.engine.engine import Engine
from headrace.graph.feedback import Respond, stamped
from headrace.graph.graph import Graph, VertexId
from headrace.model.page import Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.pattern import Pattern, matches
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.time import END
from headrace.operators.feedback.response import respond
from headrace.operators.joins.join import JoinOperator

#: A tuple of a source at a time, its values being any of the domain, or a bound that all sources promise.
Script: TypeAlias = Sequence[tuple[VertexId, int] | int]
Told: TypeAlias = Mapping[VertexId, Pattern]


@dataclass(frozen=True, slots=True)
class Violation:
    """A result that is there too often or too rarely when feedback came before entry `position` of the script."""

    kind: str
    position: int
    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Domain:
    """The columns of a source and all values of its tuples.

    The `key` column holds the case and the value in one number, the `time` column the timestamp.
    """

    schema: Schema
    rows: tuple[tuple[Any, ...], ...]
    key: str | None = None
    time: str | None = None


class Trial:
    """All inputs of a script, with the results without feedback. Operators that are `speaking` give feedback too."""

    def __init__(
        self, graph: Graph, domains: Mapping[VertexId, Domain], script: Script, speaking: Collection[VertexId] = ()
    ) -> None:
        self.graph, self.script, self._speaking = graph, script, speaking
        self._times = {name: domain.time for name, domain in domains.items() if domain.time is not None}
        self._pages = _pages(domains, script)
        self._expected = _run(Engine(graph), graph, script, self._pages, {}, len(script))

    def violations(
        self, patterns: Told, answer: Respond = respond, positions: Iterable[int] | None = None
    ) -> Iterator[Violation]:
        """Yield what is wrong if the readers at these ends send their patterns before these entries of the script.

        Of the tuples that match, any may be missing (what was emitted before stays); of the others none, and none may
        be there that was not before. As in a session, columns that tell the time are replaced by the timestamp first.
        """
        sent = {end: stamped(self.graph, end, pattern, self._times) for end, pattern in patterns.items()}
        for position in range(len(self.script) + 1) if positions is None else positions:
            engine = Engine(self.graph)
            engine.use_responses(answer)
            for name in self._speaking:
                join = engine.operators[name]
                assert isinstance(join, JoinOperator)
                join.speaks = True
            actual = _run(engine, self.graph, self.script, self._pages, sent, position)
            for end, rows in self._expected.items():
                yield from _compare(rows, actual[end], patterns.get(end), position)


def key_of(value: int, values: int, cases: int) -> tuple[int, ...]:
    """Return all keys that stand for one of `values` values, in so many cases."""
    return tuple(case * values + value for case in range(cases))


def cases_of(domains: Mapping[VertexId, Domain], script: Script) -> int:
    """Count the inputs of a script, with every choice of tuples that are left out."""
    count = 1
    for entry in script:
        if not isinstance(entry, int):
            count *= 2 * len(domains[entry[0]].rows)
    return count


@dataclass(frozen=True, slots=True)
class _Step:
    page: Page
    droppable: np.ndarray[Any, np.dtype[np.bool_]]  # in which cases the source leaves the tuple out if it may


def _pages(domains: Mapping[VertexId, Domain], script: Script) -> list[_Step | None]:
    """Return for each entry of the script the tuple of all cases, as one page."""
    choices = [range(2 * len(domains[entry[0]].rows)) for entry in script if not isinstance(entry, int)]
    chosen = np.array(list(product(*choices)), dtype=np.int64).reshape(-1, len(choices))
    steps: list[_Step | None] = []
    place = 0
    for number, entry in enumerate(script):
        if isinstance(entry, int):
            steps.append(None)
            continue
        source, ts = entry
        domain = domains[source]
        which, drop = chosen[:, place] // 2, chosen[:, place] % 2 == 1
        place += 1
        table = pl.DataFrame(list(domain.rows), schema=domain.schema.polars(), orient="row")
        case = pl.int_range(len(which), dtype=pl.Int64)
        rows = table[which.tolist()]
        if domain.key is None:
            rows = rows.with_columns(case.alias("case"))
        else:
            values = len({row[domain.schema.names.index(domain.key)] for row in domain.rows})
            rows = rows.with_columns(
                (case * values + pl.col(domain.key)).cast(domain.schema.polars()[domain.key]).alias(domain.key)
            )
        if domain.time is not None:
            rows = rows.with_columns(pl.lit(ts, pl.Int64).cast(pl.Datetime("us")).alias(domain.time))
        numbered = rows.with_columns(pl.lit(ts, pl.Int64).alias(TS), pl.lit(number, pl.Int64).alias(SEQ))
        steps.append(_Step(Page(numbered), drop))
    return steps


def _run(
    engine: Engine, graph: Graph, script: Script, pages: Sequence[_Step | None], patterns: Told, position: int
) -> dict[VertexId, pl.DataFrame | None]:
    sources = [vertex.id for vertex in graph if not vertex.inputs]
    for number, (entry, step) in enumerate(zip(script, pages, strict=True)):
        if number == position:
            _tell(engine, patterns)
        if step is None or isinstance(entry, int):
            for source in sources:
                engine.push(source, Punctuation(entry if isinstance(entry, int) else END))
        else:
            engine.push(entry[0], _left_out(engine, entry[0], step))
        engine.run()
    if position == len(script):
        _tell(engine, patterns)
    for source in sources:
        engine.push(source, Punctuation(END))
    engine.run()
    taken = engine.take_results()
    return {name: pl.concat([page.rows for page in taken[name]]) if name in taken else None for name in engine.ends}


def _tell(engine: Engine, patterns: Told) -> None:
    for end, pattern in patterns.items():
        engine.feedback(end, Feedback(Intent.ASSUMED, pattern))


def _left_out(engine: Engine, source: VertexId, step: _Step) -> Page:
    """Return the page without the tuples that the source leaves out."""
    said = engine.guards.relayed.get(source, ())
    unneeded = np.zeros(len(step.page), np.bool_)
    for feedback in (sent for sent in said if sent.intent is Intent.ASSUMED):
        unneeded |= matches(feedback.pattern, step.page.rows).to_numpy()
    return Page(step.page.rows.filter(pl.Series(~(unneeded & step.droppable))))


def _compare(
    expected: pl.DataFrame | None, actual: pl.DataFrame | None, assumed: Pattern | None, position: int
) -> Iterator[Violation]:
    some = expected if expected is not None else actual
    if some is None:
        return
    columns = some.columns
    counts = [
        (frame if frame is not None else some.clear())
        .select(columns)
        .group_by(columns)
        .agg(pl.len().cast(pl.Int64).alias(name))
        for frame, name in ((expected, "__expected"), (actual, "__found"))
    ]
    both = counts[0].join(counts[1], on=columns, how="full", nulls_equal=True, coalesce=True)
    both = both.with_columns(pl.col("__expected", "__found").fill_null(0))
    needed = pl.Series(np.ones(both.height, np.bool_)) if assumed is None else ~matches(assumed, both)
    for kind, wrong in (
        ("foreign", both["__found"] > both["__expected"]),
        ("lost", (both["__found"] < both["__expected"]) & needed),
    ):
        for row in both.filter(wrong).sort(columns).head(1).to_dicts():
            yield Violation(kind, position, row)
