"""Join of two streams over time windows: symmetric, at once on arrival, whatever the order in which pages come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import Between, Match, OneOf, less, unequal
from headrace.model.patterns.pattern import STAMP, pattern
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import BEGIN, END
from headrace.model.types import Type
from headrace.operators.arrays import KEY, Flags, gather
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.joins.hits import Hits, portions_of_hits
from headrace.operators.joins.pairing import Pairer, Pairing
from headrace.operators.joins.two_sides import TwoSides
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.state.completed import Completed
from headrace.operators.state.join_ends import JoinEnds
from headrace.operators.state.sorted_side import SortedSide

#: An impatient join that would ask for more keys than these does not ask by them: all would come first.
MOST_DESIRED_KEYS = 1024


class Join(Pairing, frozen=True, tag="join"):
    """Pairs of tuples with equal keys of which each is in the other's window: max(ts) <= min(expiry)."""

    def build(self) -> Operator:
        return JoinOperator(self)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(pair[port] for pair in self.keys)

    @property
    def order_matters(self) -> bool:
        return False

    @property
    def hindrance(self) -> str | None:
        return self.whole_hindrance or super().hindrance

    @property
    def whole_hindrance(self) -> str | None:
        if self.manner == "thrifty":
            return "a THRIFTY join has told the operators before it, in each bucket, which tuples it does not need"
        return None

    @property
    def can_be_split(self) -> bool:
        return self.kind == "inner" and self.manner == "plain"


class JoinOperator(TwoSides[SortedSide]):
    """A page meets the other side's stored rows, then is stored itself; the bound of one side lets the other forget.

    `on_page` is lazy, so that a huge result is never in memory as a whole: consume it before the next call.
    """

    def __init__(self, spec: Pairing) -> None:
        self._spec = spec
        self._pairer = pairer = Pairer(spec)
        super().__init__(
            *(SortedSide(name, pairer.needed[port], preserved=spec.preserves(port)) for port, name in enumerate("LR"))
        )
        shown = (
            dict(zip(spec.left.names, spec.left.names, strict=True)),
            dict(zip(spec.right.names, spec.right_names, strict=True)),
        )
        self._ends, self._completed = JoinEnds(spec.keys, shown), Completed(2)
        self.speaks = spec.manner != "plain"
        self.is_impatient = spec.manner in ("impatient", "demanding")
        self.is_thrifty = not self.is_impatient  # if it speaks at all
        self._announced = [BEGIN, BEGIN]  # what a thrifty join has said, of all keys
        self._announced_keys = [BEGIN, BEGIN]  # and of keys that the other side lacks
        self._desires: list[tuple[int, Feedback]] = []

    def on_page(self, port: int, page: Page) -> Iterator[Element]:
        if not len(page):
            return
        if self.speaks and self.is_impatient:
            self._desire(port, page)
        rows, known = self._pairer.arrange(port, page)
        preserved = self._sides[port].preserved
        if known is not None:  # a row without a key never finds a partner
            if preserved:
                yield self._pairer.pad(port, rows.filter(~known))
            rows = rows.filter(known)
        rows = gather(rows, np.argsort(rows[KEY].to_numpy(), kind="stable"))
        done = np.zeros(rows.height, np.bool_) if preserved else None
        yield from self._probe(port, rows, done)
        bound = self._frontier.bounds[1 - port]
        alive = np.full(rows.height, bound < END) & (rows[EXPIRY].to_numpy() >= bound)
        if not alive.all():
            if done is not None and not (done | alive).all():
                yield self._pairer.pad(port, rows.filter(~(done | alive)))
            rows, done = rows.filter(alive), None if done is None else done[alive]
        if self._completed and (gone := self._gone(port)) is not None:
            rows = rows.filter(~gone(rows))
        self._sides[port].insert(rows, done, bound)

    def on_punctuation(self, port: int, mark: Punctuation) -> list[Element]:
        if not self._advance(port, mark.bound):
            return []
        self._completed.expire(port, mark.bound)
        other = self._sides[1 - port]
        out: list[Element] = [self._pairer.pad(1 - port, rows) for rows in other.expire(mark.bound)]
        other.purge(mark.bound)
        if self._completed:
            out += self._ends.shown(self._completed.news(self._frontier.bounds))
        return [*out, *self._promise(min(self._frontier.minimum, *map(self._earliest_padded, (0, 1))))]

    def _earliest_padded(self, port: int) -> int:
        """Return a bound of the rows of a side that can still come out padded: they carry their own timestamps."""
        if not self._spec.preserves(port):
            return END
        bound = self._spec.earliest_padded(self._frontier.bounds[1 - port])
        return self._sides[port].oldest_waiting() if bound is None else bound

    def on_completion(self, port: int, completion: Completion) -> list[Element]:
        """Forget the rows of the other side that could only meet tuples of keys that are complete here."""
        rows = self._ends.keys(port, completion) if self._spec.kind == "inner" else None
        if rows is None or not self._completed.add(port, rows, self._frontier.bounds[port]):
            return []
        if (gone := self._gone(1 - port)) is not None:
            self._sides[1 - port].give(gone)
        return self._ends.shown(self._completed.news(self._frontier.bounds))

    def _gone(self, port: int) -> Callable[[pl.DataFrame], Flags] | None:
        """Return which rows of a side can meet nothing any more, as the keys of theirs are complete at the other."""
        completed, names = self._completed.of(1 - port), self._ends.columns[port]
        if completed is None:
            return None
        return lambda rows: self._ends.expired(rows, completed, {key: rows[name] for key, name in names.items()})

    def state(self) -> State:
        return {**super().state(), **self._completed.state()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._completed.restore(state)

    def said(self) -> list[tuple[int, Feedback]]:
        """Return what a thrifty join no longer needs of its inputs, or which partners an impatient join desires.

        What is kept is looked at, not only how far the other side has come: with disorder a silent stretch is no empty
        one.
        """
        if not self.speaks:
            return []
        feedback, self._desires = self._desires, []
        if not self.is_thrifty:
            return feedback
        for port, extent in enumerate((self._spec.left_extent, self._spec.right_extent)):
            if self._spec.preserves(port) or extent is None or extent.span is None:
                continue  # an unmatched tuple of a preserved side must appear
            other = min((chunk.min_ts for chunk in self._sides[1 - port].chunks()), default=END)
            before = min(self._frontier.bounds[1 - port], other) - extent.span
            if max(self._announced[port], self._frontier.bounds[port]) < before < END - extent.span:
                self._announced[port] = before
                feedback.append((port, Feedback(Intent.ASSUMED, pattern((STAMP, less(before))))))
            feedback += self._without_partner(port, extent.span)
        return feedback

    def _without_partner(self, port: int, span: int) -> list[tuple[int, Feedback]]:
        """Return the keys of which the other side has no tuple for a stretch of time that it has passed."""
        names, end = self._ends.columns, self._frontier.bounds[1 - port] - span
        begin = max(self._announced[port], self._announced_keys[port], self._frontier.bounds[port])
        if not names[port] or not begin < end < END - span:
            return []
        number, name = next(iter(names[port].items()))
        key = Column(name, self._spec.keys[int(number)][port].type)
        if key.type is Type.BINARY or not isinstance(key.type, Type):
            return []
        meeting = (pl.col(TS) < end + span) & (pl.col(EXPIRY) >= begin)
        theirs = pl.col(names[1 - port][number])
        kept = [chunk.present.lazy() for chunk in self._sides[1 - port].chunks()]
        found = [rows.filter(meeting).select(theirs).unique() for rows in kept]
        values = pl.concat(found).unique().collect().to_series().drop_nulls() if found else pl.Series(dtype=pl.Int64)
        if len(values) > MOST_DESIRED_KEYS:
            return []
        self._announced_keys[port] = end
        times = Between(None if begin <= BEGIN else begin, end, open_high=True)
        absent = unequal(*values.sort().to_physical().to_list())
        return [(port, Feedback(Intent.ASSUMED, pattern((STAMP, times), (key, absent))))]

    def _desire(self, port: int, page: Page) -> None:
        """Ask for the partners of a page's tuples."""
        terms: list[tuple[Column, Match]] = []
        own_terms: list[tuple[Column, Match]] = []
        for pair in self._spec.keys:
            own, other = pair[port], pair[1 - port]
            if (
                isinstance(own, Column)
                and isinstance(other, Column)
                and own.type is not Type.BINARY
                and own.type == other.type
                and isinstance(own.type, Type)
            ):
                values = page.rows[own.name].drop_nulls().unique()
                if len(values) <= MOST_DESIRED_KEYS:
                    keys = OneOf(tuple(values.sort().to_physical().to_list()))
                    terms.append((other, keys))
                    own_terms.append((own, keys))
        if terms:
            self._desires.append((1 - port, Feedback(Intent.DESIRED, pattern(*terms))))
        if self._spec.manner == "demanding":  # the pairs of these keys, as far as both sides have come
            self._desires.append((1 - port, Feedback(Intent.DEMANDED, pattern(*terms))))
            self._desires.append((port, Feedback(Intent.DEMANDED, pattern(*own_terms))))

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given: dict[str, pl.DataFrame] = {}
        for side, by in zip(self._sides, keys, strict=True):
            rows = side.give(chosen_by(choose, by))
            given |= {side.name: pl.concat(rows)} if rows else {}
        return given

    def copy(self, port: int, keys: Sequence[Keys], choose: Choose) -> State:
        side = self._sides[port]
        rows = side.copy(chosen_by(choose, keys[port]))
        return {side.name: pl.concat(rows)} if rows else {}

    def forget(self, port: int, keys: Sequence[Keys], choose: Choose) -> None:
        self._sides[port].give(chosen_by(choose, keys[port]))

    def take(self, given: State) -> None:
        for port, side in enumerate(self._sides):
            if side.name in given:
                side.take_in(given[side.name], self._frontier.bounds[1 - port])
        self._go_back(min(map(self._earliest_padded, (0, 1))))

    def due(self) -> int | None:
        first = min(side.next_unmatched() for side in self._sides)
        return None if first == END else first + 1

    def _probe(self, port: int, rows: pl.DataFrame, done: Flags | None) -> Iterator[Page]:
        """Yield pairs of these rows (sorted by key) with the other side's.

        Flag in `done` the rows that found a partner.
        """
        for hits in portions_of_hits(rows, self._sides[1 - port].meeting):
            yield from self._emit(port, rows, hits, done)

    def _emit(self, port: int, rows: pl.DataFrame, collected: list[Hits], done: Flags | None) -> Iterator[Page]:
        mine = np.concatenate([hits.mine for hits in collected])
        others = pl.concat([gather(hits.chunk.needed, hits.theirs) for hits in collected])
        ts, exp = np.concatenate([hits.ts for hits in collected]), np.concatenate([hits.exp for hits in collected])
        page, kept = self._pairer.join(port, gather(rows.select(self._pairer.needed[port]), mine), others, ts, exp)
        if done is not None:
            done[mine if kept is None else mine[kept]] = True
        start = 0
        for hits in collected:
            stop = start + len(hits.theirs)
            if hits.chunk.is_preserved:
                hits.chunk.mark(hits.theirs if kept is None else hits.theirs[kept[start:stop]])
            start = stop
        if len(page):
            yield page
