"""The common case, on columns: tuples with a key that follow one another, one of each part.

a SEQUENCE b SEQUENCE c is a chain of stages; each pairs what came out of the stage before with the tuples of one more
part. All tuples that the frontier has passed are taken at once, sorted by key and time, and found by searching.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import polars as pl

from headrace.errors import InternalError
from headrace.model.events.event import Event, Mode, Primitive, Within, primitives, reaches
from headrace.model.events.event import Sequence as Following
from headrace.model.events.output import Aggregated, Count, Ended, Output, Pick, Started
from headrace.model.expressions.expression import Column, columns
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.arrays import EXACT, KEY
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.events.chain_step import BEGIN_TS, ChainStep
from headrace.operators.events.detection import Detection
from headrace.operators.events.inputs import InputsOperator, numbered, part_of
from headrace.operators.events.masks import begins
from headrace.operators.expressions.evaluate import compile_predicate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.joins.sequence_state import Predecessors
from headrace.operators.operator import State
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up


def is_chain(spec: Detection) -> bool:
    """Return whether an event is a sequence of tuples of different inputs, of which only the first may last."""
    parts = tuple(primitives(spec.event))
    if any(part.start is not None for part in parts[1:]):
        return False
    simple = (
        spec.context.mode is not Mode.CUMULATIVE
        and not spec.context.retentions
        and not any(isinstance(output, Aggregated) for output in spec.outputs)
        and len({part.port for part in parts}) == len(parts)
    )
    return simple and len(parts) > 1 and _spans(spec.event, None) is not None


class KeyedInputs(InputsOperator):
    """Inputs of which each part reads its own, in the order of time, with a number for the key.

    `_stores` has what is kept of them.
    """

    def __init__(self, spec: Detection) -> None:
        self._spec = spec
        self._parts = tuple(primitives(spec.event))
        super().__init__(spec)
        self._is_exact = len(spec.keys[0]) == 1 and all(keys[0].type in EXACT for keys in spec.keys)
        self._timed = {name for term in spec.conditions for name in columns(term) if name.endswith(f".{TS}")}

    def due(self) -> int | None:
        oldest = self._inputs.oldest()
        return None if oldest >= END else oldest + 1

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = self._inputs.kept_keys(0, keys)
        if kept and self._is_exact:
            kept = (Column(KEY, Type.BIGINT),)  # the values themselves as numbers, which have the same hash
        stores = [given_up(rows=store.give(chosen_by(choose, kept))) for store in self._stores()]
        return numbered("store", stores) | self._inputs.give(keys, choose)

    def take(self, given: State) -> None:
        self._inputs.take_in(given)
        for number, store in enumerate(self._stores()):
            if f"store{number}/rows" in given:
                store.take_in(given[f"store{number}/rows"])

    @abstractmethod
    def _stores(self) -> Sequence[Predecessors]:
        """Return what is kept of tuples that were looked at."""

    def _rows(self, number: int, bound: int) -> pl.DataFrame | None:
        """Return a part's tuples below the bound in order, by qualified names, with the number of the key."""
        part = self._parts[number]
        rows = self._inputs.take(part.port, bound)
        if rows is None:
            return None
        keys = self._inputs.key_names
        if not keys:
            number_of = pl.zeros(rows.height, pl.Int64, eager=True)
        elif self._is_exact:
            number_of = rows[keys[0]].to_physical().cast(pl.Int64)
        else:
            number_of = pl.Series(hash_columns([rows[name] for name in keys]))
        own = {TS, *keys}
        named = [
            column.alias(column.name if column.name in own else f"{part.name}.{column.name}")
            for column in rows.get_columns()
        ]
        named += [rows[TS].alias(f"{part.name}.{TS}")] if f"{part.name}.{TS}" in self._timed else []
        if self._is_exact:
            named = [column for column in named if column.name not in keys]
        return pl.DataFrame([*named, number_of.alias(KEY)]).sort(TS, maintain_order=True)


class Chain(KeyedInputs):
    """Tuples that wait for the frontier, and at each stage what waits for a next part."""

    def __init__(self, spec: Detection) -> None:
        super().__init__(spec)
        spans = _spans(spec.event, None) or ()
        names = [part.name for part in self._parts]
        tests: list[list[pl.Expr]] = [[] for _ in spans]
        read: list[set[str]] = [set() for _ in spans]
        for term in spec.conditions:
            last = max(names.index(name.partition(".")[0]) for name in columns(term))
            tests[max(last - 1, 0)].append(compile_predicate(term))
            read[max(last - 1, 0)] |= columns(term)
        apart = self._inputs.key_names if not self._is_exact else []
        first = self._parts[0]  # what lasts need not end in the order in which it began
        self._steps = [
            ChainStep(
                spec.context.mode, span, test, frozenset(named), apart, plain=first.start is None and not any(tests[:i])
            )
            for i, (span, test, named) in enumerate(zip(spans, tests, read, strict=True))
        ]
        self._begin = begins(None if first.start is None else f"{first.name}.{first.start}").alias(BEGIN_TS)

    def _detect(self, bound: int) -> pl.DataFrame | None:
        chains = self._rows(0, bound)
        chains = None if chains is None else chains.with_columns(self._begin)
        for number, step in enumerate(self._steps):
            chains = step.pair(chains, self._rows(number + 1, bound), bound)
        return None if chains is None else chains.select(*map(_column, self._spec.outputs), TS)

    def state(self) -> State:
        return numbered("stage", (step.before.state() for step in self._steps)) | self._inputs.state()

    def restore(self, state: State) -> None:
        self._inputs.restore(state)
        for number, step in enumerate(self._steps):
            step.before.restore(part_of(state, f"stage{number}/"))

    def held(self) -> int:
        return self._inputs.held() + sum(map(len, self._stores()))

    def _stores(self) -> Sequence[Predecessors]:
        return [step.before for step in self._steps]


def _spans(event: Event, span: int | None) -> list[int | None] | None:
    """Return how long the pairs of each step may last; None if the event is no chain of primitive events."""
    match event:
        case Within(event=inner):
            return _spans(inner, reaches(event, span)[0])
        case Primitive():
            return []
        case Following(left=left, right=Primitive()):
            before = _spans(left, span)
            return None if before is None else [*before, span]
        case _:
            return None


def _column(output: Output) -> pl.Expr:
    match output:
        case Pick(name=name, part=part, column=column):
            return pl.col(f"{part}.{column}").alias(name)
        case Aggregated(name=name):
            raise InternalError(f"{name} is not computed from one tuple")
        case Count(name=name):
            return pl.lit(1, pl.Int64).alias(name)
        case Started(name=name):
            return pl.col(BEGIN_TS).cast(pl.Datetime("us")).alias(name)
        case Ended(name=name):
            return pl.col(TS).cast(pl.Datetime("us")).alias(name)
