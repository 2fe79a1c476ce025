"""Join of two streams of which at least one remembers by count: the newest `rows` tuples (of their group).

Counting needs one total order of all tuples: by timestamp, then left before right, then arrival. Tuples wait until
the bounds of both sides are past them. In that order the tuple that pushes another one out is known, so a count
becomes an expiry: a left tuple is last seen just before the timestamp of the left tuple that replaces it, a right one
at that very timestamp, since left tuples precede right ones of equal time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern, without
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import END
from headrace.model.window import Extent
from headrace.operators.arrays import KEY, Flags, Ints, gather, matches
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.joins.pairing import Pairer, Pairing
from headrace.operators.joins.two_sides import TwoSides
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys

_LARGEST = 1 << 16
_KNOWN = "__known"
_DONE = "__done"


class RowsJoin(Pairing, frozen=True, tag="rows_join"):
    """Each tuple with the tuples of the other side that precede it and are in their window then.

    Each input is in order.
    """

    def build(self) -> Operator:
        return _RowsJoin(self)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        # a bucket sees only its own tuples, so it may count them only if a group never spans buckets
        for side in (0, 1):
            extent = self.extent(side)
            if extent is not None and extent.rows is not None and extent.by != tuple(pair[side] for pair in self.keys):
                return ()
        return tuple(pair[port] for pair in self.keys)


class _RowsJoin(TwoSides["_Side"]):
    """Tuples ahead wait for their turn; those in the window had it and are still seen by later ones.

    `on_punctuation` is lazy, so that a huge result is never in memory as a whole: consume it before the next call.
    """

    def __init__(self, spec: RowsJoin) -> None:
        self._spec = spec
        self._pairer = pairer = Pairer(spec)
        super().__init__(*(_Side(spec.extent(port), port, pairer.arranged(port)) for port in (0, 1)))

    def on_page(self, port: int, page: Page) -> list[Element]:
        if len(page):
            rows, known = self._pairer.arrange(port, page)
            flags = pl.Series(np.ones(rows.height, np.bool_) if known is None else known)
            self._sides[port].wait(rows.with_columns(flags.alias(_KNOWN), pl.lit(False).alias(_DONE)))
        return []

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterator[Element]:
        if not self._advance(port, mark.bound):
            return
        due = self._frontier.minimum
        released = [side.release(due) for side in self._sides]
        for probing in (0, 1):
            yield from self._probe(probing, released[probing], released[1 - probing])
        bound = due
        for at, (side, rows) in enumerate(zip(self._sides, released, strict=True)):
            # who comes next on the other side is the first that could still see a tuple of this one
            coming = min(self._frontier.bounds[1 - at], self._sides[1 - at].first_ahead())
            alive = np.full(len(rows.ts), coming < END) & (rows.exp >= coming)
            side.keep(rows, alive)
            if self._spec.preserves(at):
                unmatched = ~alive & ~rows.done
                if unmatched.any():
                    yield self._pairer.pad(at, rows.frame.filter(unmatched))
                waiting = self._spec.earliest_padded(due)
                bound = min(bound, int(rows.ts[alive & ~rows.done].min(initial=END)) if waiting is None else waiting)
        yield from self._promise(bound)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given: dict[str, pl.DataFrame] = {}
        for side, by in zip(self._sides, keys, strict=True):
            given |= side.give(chosen_by(choose, by))
        return given

    def take(self, given: State) -> None:
        for at, side in enumerate(self._sides):
            side.take_in(given)
            if self._spec.preserves(at) and self._spec.has_own_time:
                self._go_back(side.oldest_waiting())

    def due(self) -> int | None:
        first = min(side.first_ahead() for side in self._sides)
        first = min(
            first, *(side.next_unmatched() for at, side in enumerate(self._sides) if self._spec.preserves(at)), END
        )
        return None if first == END else first + 1

    def _probe(self, port: int, mine: _Seen, others: _Seen) -> Iterator[Page]:
        """Yield pairs of the fresh tuples of a port with earlier tuples of the other side that are in their window."""
        here, there = mine.by_key(fresh=True), others.by_key(fresh=False)
        if not len(here) or not len(there):
            return
        for first, second in matches(mine.keys[here], others.keys[there]):
            i, j = here[first], there[second]
            precede = others.ts[j] < mine.ts[i] if port == 0 else others.ts[j] <= mine.ts[i]
            meet = precede & (mine.ts[i] <= others.exp[j])
            i, j = i[meet], j[meet]
            expiry = np.minimum(mine.life[i], others.life[j])
            page, kept = self._pairer.join(port, gather(mine.frame, i), gather(others.frame, j), mine.ts[i], expiry)
            mine.done[i if kept is None else i[kept]] = True
            others.done[j if kept is None else j[kept]] = True
            if len(page):
                yield page


class _Seen:
    """A side's tuples that had their turn, in order; the first `old` of them had it earlier."""

    def __init__(self, frame: pl.DataFrame, old: int, exp: Ints) -> None:
        self.frame = frame
        self.old = old
        self.exp = exp
        self.ts = frame[TS].to_numpy()
        self.life = frame[EXPIRY].to_numpy()
        self.keys = frame[KEY].to_numpy()
        self.done: Flags = frame[_DONE].to_numpy().copy()

    def by_key(self, *, fresh: bool) -> Ints:
        """Return the places of all tuples, or of the fresh ones, that have a whole key, sorted by key."""
        places = np.flatnonzero(self.frame[_KNOWN].to_numpy())
        if fresh:
            places = places[places >= self.old]
        return places[np.argsort(self.keys[places], kind="stable")]


class _Side:
    """The tuples of one side: ahead, in arrival order, and in the window."""

    def __init__(self, extent: Extent | None, port: int, columns: dict[str, pl.DataType]) -> None:
        self._name = "LR"[port]
        self._port = port
        self._extent = extent
        self._by = () if extent is None else tuple(compile_expr(expr) for expr in extent.by)
        self._empty = pl.DataFrame(schema={**columns, _KNOWN: pl.Boolean(), _DONE: pl.Boolean()})
        self._ahead: dict[int, pl.DataFrame] = {}
        self._window: list[pl.DataFrame] = []
        self._next = 0

    def __len__(self) -> int:
        return sum(frame.height for frame in (*self._ahead.values(), *self._window))

    def wait(self, rows: pl.DataFrame) -> None:
        self._ahead[self._next] = rows
        self._next += 1

    def first_ahead(self) -> int:
        """Return the smallest timestamp of a waiting tuple, or END."""
        return next((int(frame[TS][0]) for frame in self._ahead.values()), END)

    def oldest_waiting(self) -> int:
        """Return the smallest timestamp of a tuple of the window that found no partner, or END."""
        stamps = (frame.filter(~pl.col(_DONE))[TS].to_numpy() for frame in self._window)
        return min((int(part.min(initial=END)) for part in stamps), default=END)

    def next_unmatched(self) -> int:
        """Return the first time after which a tuple of the window that found no partner has no chance left, or END."""
        if not self._window:
            return END
        frame = pl.concat(self._window)
        return int(self._last_seen(frame)[~frame[_DONE].to_numpy()].min(initial=END))

    def release(self, due: int) -> _Seen:
        """Let the tuples before `due` have their turn."""
        fresh = []
        for number, frame in list(self._ahead.items()):
            count = int(frame[TS].search_sorted(due, "left"))
            if count == 0:
                break
            fresh.append(frame[:count])
            if count == frame.height:
                del self._ahead[number]
            else:
                self._ahead[number] = frame[count:]
        frame = pl.concat([*self._window, *fresh]) if self._window or fresh else self._empty
        return _Seen(frame, sum(part.height for part in self._window), self._last_seen(frame))

    def keep(self, rows: _Seen, alive: Flags) -> None:
        """Remember these tuples as the window; pieces that did not change stay the same objects."""
        frame = rows.frame.with_columns(pl.Series(_DONE, rows.done)).filter(alive)
        pieces = [frame[start : start + _LARGEST] for start in range(0, frame.height, _LARGEST)]
        self._window = [
            old if old is not None and old.equals(new) else new
            for old, new in zip_longest(self._window[: len(pieces)], pieces)
        ]

    def remove(self, pattern: Pattern) -> int:
        """Forget the tuples that match: whole groups of a side that counts, so that no other place changes."""
        before = len(self)
        ahead = {number: without(pattern, frame) for number, frame in self._ahead.items()}
        self._ahead = {number: frame for number, frame in ahead.items() if frame.height}
        self._window = [frame for frame in (without(pattern, frame) for frame in self._window) if frame.height]
        return before - len(self)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> dict[str, pl.DataFrame]:
        """Give up the tuples that are chosen, those ahead and those in the window."""
        parts = [(f"{self._name}/ahead", list(self._ahead.values())), (f"{self._name}/window", self._window)]
        given = {name: pl.concat(frames) for name, frames in parts if frames}
        chosen = {name: choose(rows) for name, rows in given.items()}
        for name, rows in given.items():
            self._put(name, rows.filter(~chosen[name]))
        return {name: rows.filter(chosen[name]) for name, rows in given.items() if chosen[name].any()}

    def take_in(self, given: State) -> None:
        """Go on with tuples of keys that are not known here; each part stays in the order of time."""
        for name, own in ((f"{self._name}/ahead", list(self._ahead.values())), (f"{self._name}/window", self._window)):
            if name in given:
                self._put(name, pl.concat([*own, given[name]]).sort(TS, maintain_order=True))

    def _put(self, name: str, rows: pl.DataFrame) -> None:
        pieces = [rows] if rows.height else []
        if name.endswith("/window"):
            self._window = pieces
        else:
            self._ahead = {self._next + place: piece for place, piece in enumerate(pieces)}
            self._next += len(pieces)

    def state(self) -> dict[str, pl.DataFrame]:
        frames = {f"{self._name}/ahead/{number}": frame for number, frame in self._ahead.items()}
        return frames | {f"{self._name}/window/{number}": frame for number, frame in enumerate(self._window)}

    def restore(self, state: State) -> None:
        parts: dict[str, dict[int, pl.DataFrame]] = {"ahead": {}, "window": {}}
        for name, frame in state.items():
            if name.startswith(f"{self._name}/"):
                _, part, number = name.split("/")
                parts[part][int(number)] = frame
        self._ahead = dict(sorted(parts["ahead"].items()))
        self._window = [frame for _, frame in sorted(parts["window"].items())]
        self._next = max(self._ahead, default=-1) + 1

    def _last_seen(self, frame: pl.DataFrame) -> Ints:
        """Return the last timestamp of a tuple of the other side that sees this one, as far as is known; else END."""
        if self._extent is None or self._extent.rows is None:
            return frame[EXPIRY].to_numpy()
        groups = [expr.alias(f"__by{i}") for i, expr in enumerate(self._by)]
        replaced = pl.col(TS).shift(-self._extent.rows)
        if groups:
            replaced = replaced.over([f"__by{i}" for i in range(len(groups))])
        last = replaced - 1 if self._port == 0 else replaced
        return frame.with_columns(groups).select(last.fill_null(END))[TS].to_numpy()
