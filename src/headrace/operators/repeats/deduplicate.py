"""Let out the first or the last of the tuples that share a key and follow each other shortly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern, rename
from headrace.model.schema import HIDDEN, TS
from headrace.model.time import BEGIN, END, format_duration
from headrace.operators.arrays import Array
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.keyed_spec import KeyedSpec
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.repeats.last_seen import HASH, NEVER, LastSeen
from headrace.operators.state.given import given_up, kept_as
from headrace.operators.state.runs import Runs
from headrace.operators.text import listed
from headrace.operators.windows.slices import group_numbers

#: The timestamp of the first tuple of a run of duplicates, of which only the last is kept.
_SINCE = "__since"


class Deduplicate(KeyedSpec, frozen=True, tag="deduplicate"):
    """A tuple comes out iff none with the same key precedes it (`last`: follows it) by at most `span`.

    NULL equals NULL. Of tuples with equal timestamps, the columns named in `ties` say which comes first.
    """

    by: tuple[Expr, ...]
    span: int
    last: bool
    ties: tuple[str, ...]

    def build(self) -> _Lasts | _Firsts:
        return _Lasts(self) if self.last else _Firsts(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"{'last' if self.last else 'first'} of each {listed(self.by)} within {format_duration(self.span)}"


class _Keyed:
    """The key columns of tuples, and tuples in the order of key and time.

    Where whole tuples are kept, a key that is a column of theirs is this column.
    """

    def __init__(self, spec: Deduplicate, *, keeps_tuples: bool) -> None:
        self._by, self._ties = spec.by, spec.ties
        numbered = [f"__by{i}" for i in range(len(spec.by))]
        self.names = [
            expr.name if keeps_tuples and type(expr) is Column and expr not in spec.by[:place] else numbered[place]
            for place, expr in enumerate(spec.by)
        ]
        self._unused = [name for name in numbered if name not in self.names]
        self._keys = [compile_expr(expr).alias(name) for name, expr in zip(self.names, spec.by, strict=True)]
        self._plain = {expr.name: name for name, expr in zip(self.names, spec.by, strict=True) if type(expr) is Column}

    def without_unused(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return kept rows without what only those of an earlier version have; others stay the same object."""
        extra = [name for name in self._unused if name in rows.columns]
        return rows.drop(extra) if extra else rows

    def kept_as(self, keys: Keys) -> Keys:
        """Return keys of the input as the columns of kept rows."""
        return kept_as(keys, self._by, self.names)

    def ordered(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
        """Return rows with their keys in the order of keys, time and ties, and the number of each row's key."""
        keyed = rows.with_columns(self._keys)
        hashes = hash_columns([keyed[name] for name in self.names])
        keyed = keyed.with_columns(pl.Series(HASH, hashes))
        stamps = keyed[TS].to_numpy()
        is_ordered = bool((stamps[1:] > stamps[:-1]).all())
        return self.by_key(keyed if is_ordered else keyed.sort([TS, *self._ties], maintain_order=True))

    def by_key(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
        """Return rows in the order of their keys, those of one key as they come, and the number of each row's key.

        Sorting by the hash alone takes a third of the time. Different keys of one hash are so rare that all is sorted
        again then.
        """
        rows = rows.sort(HASH, maintain_order=True)
        groups = group_numbers(rows, [HASH, *self.names])
        hashes = rows[HASH].to_numpy()
        if np.count_nonzero(hashes[1:] != hashes[:-1]) < np.count_nonzero(groups[1:] != groups[:-1]):
            rows = rows.sort([HASH, *self.names], maintain_order=True)
            groups = group_numbers(rows, [HASH, *self.names])
        return rows, groups

    def pattern(self, pattern: Pattern) -> Pattern | None:
        """Return a pattern of the input over the key columns; None if it is about anything but plain keys."""
        return rename(pattern, self._plain) if pattern.names <= self._plain.keys() else None


def _visible(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in timestamp order, without what was computed."""
    names = [name for name in rows.columns if not name.startswith("__") or name in HIDDEN]
    return rows.select([*(name for name in names if name not in HIDDEN), TS]).sort(TS, maintain_order=True)


class _Firsts(Operator):
    """Keeps when each key was seen last. Tuples wait until the frontier has passed them."""

    def __init__(self, spec: Deduplicate) -> None:
        self._span = spec.span
        self._keyed = _Keyed(spec, keeps_tuples=False)
        self._pending = Pending()
        self._last_seen = LastSeen(self._keyed.names, spec.span)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        fresh = None if ready is None else self._fresh(ready, mark.bound)
        # Only now: the tuples just taken are older than the bound and may need older values.
        self._last_seen.expire(mark.bound)
        return (mark,) if fresh is None or fresh.height == 0 else (Page(fresh), mark)

    def state(self) -> State:
        return {**self._pending.state(), **self._last_seen.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._last_seen.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = chosen_by(choose, self._keyed.kept_as(keys[0]))
        return given_up(pending=self._pending.give(chosen_by(choose, keys[0])), seen=self._last_seen.give(kept))

    def take(self, given: State) -> None:
        if "pending" in given:
            self._pending.add(given["pending"])
        if "seen" in given:
            self._last_seen.take(given["seen"])

    def purge(self, port: int, pattern: Pattern) -> int:
        keys = self._keyed.pattern(pattern)
        return 0 if keys is None else self._pending.remove(pattern) + self._last_seen.remove(keys)

    def held(self) -> int:
        return len(self._pending) + len(self._last_seen)

    def due(self) -> int | None:
        return self._pending.due()

    def _fresh(self, ready: pl.DataFrame, bound: int) -> pl.DataFrame:
        rows, groups = self._keyed.ordered(ready)
        stamps = rows[TS].to_numpy()
        first = np.append(True, groups[1:] != groups[:-1])
        final = np.append(groups[1:] != groups[:-1], True)
        keys = rows.filter(first).select(*self._keyed.names, TS, HASH)
        previous = np.where(first, NEVER, np.roll(stamps, 1))
        previous[first] = self._last_seen.last(keys)
        self._last_seen.add(keys.with_columns(pl.Series(TS, stamps[final])), bound)
        return _visible(rows.filter(previous < stamps - self._span))


class _Lasts(Operator):
    """Keeps the newest tuple of each run of duplicates, and when the run began.

    A tuple comes out when the frontier is `span` ahead of it, so the output is so far behind the input.
    """

    def __init__(self, spec: Deduplicate) -> None:
        self._span = spec.span
        self._keyed = _Keyed(spec, keeps_tuples=True)
        self._pending = Pending()
        self._newest = Runs("newest", TS, self._merged)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        if ready is not None:
            rows, groups = self._keyed.ordered(ready)
            self._newest.append(self._lasts(rows.with_columns(pl.col(TS).alias(_SINCE)), groups))
        edge = END if mark.bound >= END else max(BEGIN, mark.bound - self._span)
        out: list[Element] = []
        parts = self._newest.between(BEGIN, edge) if self._newest.least() < edge else []
        if parts:  # a tuple may have been replaced by a newer one
            over = pl.concat(parts)
            later = [self._of_keys(rows, over) for rows in self._newest.between(edge, END)]
            done = self._merged(pl.concat([over, *later])).filter(pl.col(TS) < edge)
            self._newest.expire(edge)
            out += [Page(_visible(done))] if done.height else []
        return (*out, Punctuation(edge))

    def state(self) -> State:
        return {**self._pending.state(), **self._newest.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._newest.restore({name: self._keyed.without_unused(rows) for name, rows in state.items()})

    def purge(self, port: int, pattern: Pattern) -> int:
        keys = self._keyed.pattern(pattern)
        return 0 if keys is None else self._pending.remove(pattern) + self._newest.remove(keys)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = chosen_by(choose, self._keyed.kept_as(keys[0]))
        return given_up(pending=self._pending.give(chosen_by(choose, keys[0])), newest=self._newest.give(kept))

    def take(self, given: State) -> None:
        if "pending" in given:
            self._pending.add(given["pending"])
        if "newest" in given:
            self._newest.append(self._keyed.without_unused(given["newest"]))

    def held(self) -> int:
        return len(self._pending) + len(self._newest)

    def due(self) -> int | None:
        oldest = min(self._pending.oldest(), self._newest.least())
        return None if oldest >= END else oldest + self._span + 1

    def _of_keys(self, rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
        return rows.join(others, on=[HASH, *self._keyed.names], how="semi", nulls_equal=True, maintain_order="left")

    def _merged(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the last tuple of each run of duplicates; of two runs that meet, that of the later one."""
        in_time = rows if rows[TS].is_sorted() else rows.sort(TS, maintain_order=True)
        return self._lasts(*self._keyed.by_key(in_time))

    def _lasts(self, rows: pl.DataFrame, groups: Array) -> pl.DataFrame:
        """Do this for rows in the order of their keys, whose numbers are in `groups`, and of time."""
        since, stamps = rows[_SINCE].to_numpy(), rows[TS].to_numpy()
        begins = np.append(True, (groups[1:] != groups[:-1]) | (since[1:] - stamps[:-1] > self._span))
        ends = np.append(begins[1:], True)
        return rows.filter(ends).with_columns(pl.Series(_SINCE, since[begins]))
