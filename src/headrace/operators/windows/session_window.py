"""Aggregates over Session windows: per group, runs of tuples that are closer than `gap` to the next.

State is fragments: stretches of a session with first and last timestamp and the partial of their tuples. They are
merged whenever they meet. A session is complete when a punctuation shows that no tuple can extend it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.model.window import AggregateCall, Session
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.state.completed import named_as, shown_as, times_of
from headrace.operators.state.given import given_up, kept_as
from headrace.operators.state.run_tree import RunTree
from headrace.operators.text import aggregation
from headrace.operators.windows.aggregates import Aggregates, GroupKeys

_FIRST, _LAST, _SESSION = "__first", "__last", "__session"
_RIPE = "__ripe"


class SessionAggregate(UnorderedByKey, frozen=True, tag="session_aggregate"):
    """Results of every session that a punctuation completes; tuples may come in any order."""

    window: Session
    keys: GroupKeys
    calls: tuple[AggregateCall, ...]

    def build(self) -> Operator:
        return _Sessions(self.window, Aggregates(self.keys, self.calls))

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return aggregation(self.window, self.keys, self.calls)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(expr for _, expr in self.keys)

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(Column(self.keys[i][0], self.keys[i][1].type) for i in positions)


class _Sessions(Operator):
    """Keeps fragments in the order of their last timestamp: those of complete sessions come first."""

    def __init__(self, window: Session, aggregates: Aggregates) -> None:
        self._gap, self._aggregates = window.gap, aggregates
        self._parted = window.gap + window.inclusive  # tuples at least so far apart are of different sessions
        self._shown = shown_as(aggregates.keys)
        self._columns = [*aggregates.names, _FIRST, _LAST, *(part.name for part in aggregates.parts)]
        self._fragments = RunTree("session", _LAST, self._merge, aggregates.names)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if len(page):
            rows = self._aggregates.read(page.rows, pl.col(TS).alias(_FIRST), pl.col(TS).alias(_LAST))
            ends = pl.col(_FIRST).min(), pl.col(_LAST).max()
            self._fragments.append(
                self._aggregates.fold(self._numbered(rows), [_SESSION, *self._aggregates.names], *ends).select(
                    self._columns
                )
            )
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        results = self._close(mark.bound) if self._fragments.least() + self._parted <= mark.bound else None
        # A later result is `gap` after the last tuple of a session that is open, or begins later. The bound does not
        # depend on which are open here, since others may come from another bucket.
        bound_after = Punctuation(END if mark.bound >= END else mark.bound - self._parted + 1 + self._gap)
        return (bound_after,) if results is None else (Page(results), bound_after)

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        """Close the sessions of some groups ahead of time."""
        for shown in named_as(completion, self._shown):
            results = self._close_ahead(shown.rows)
            if results is not None:
                yield Page(results)
            yield Completion(shown.rows.with_columns(pl.col(TS) - self._parted + 1 + self._gap))

    def _close_ahead(self, completed: pl.DataFrame) -> pl.DataFrame | None:
        """Return results of the sessions of these keys that end by the time of the key, and forget them."""
        given = self._fragments.give(lambda rows: (times_of(rows, completed) > BEGIN).to_numpy())
        if not given:
            return None
        fragments = self._numbered(pl.concat(given))
        until = pl.col(_LAST).max().over(_SESSION) + self._parted
        fragments = fragments.with_columns((until <= times_of(fragments, completed)).alias(_RIPE))
        self._fragments.append(fragments.filter(~pl.col(_RIPE)).select(self._columns))
        return self._results(fragments.filter(_RIPE))

    def state(self) -> State:
        return self._fragments.state()

    def restore(self, state: State) -> None:
        self._fragments.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = kept_as(keys[0], tuple(expr for _, expr in self._aggregates.keys), self._aggregates.names)
        return given_up(fragments=self._fragments.give(chosen_by(choose, kept)))

    def take(self, given: State) -> None:
        self._fragments.append(given["fragments"])

    def purge(self, port: int, pattern: Pattern) -> int:
        groups = self._aggregates.groups(pattern)
        return 0 if groups is None else self._fragments.remove(groups)

    def held(self) -> int:
        return len(self._fragments)

    def due(self) -> int | None:
        least = self._fragments.least()
        return None if least == END else least + self._parted

    def _close(self, bound: int) -> pl.DataFrame | None:
        names, edge = self._aggregates.names, bound - self._parted + 1
        ripened = self._fragments.between(BEGIN, edge)
        if not ripened:
            return None  # they have merged with later ones
        ripe = pl.concat(ripened).with_columns(pl.lit(True).alias(_RIPE))
        green = [rows.with_columns(pl.lit(False).alias(_RIPE)) for rows in self._fragments.between(edge, END)]
        if names:
            green = [rows.join(ripe, on=names, how="semi", nulls_equal=True, maintain_order="left") for rows in green]
        fragments = self._numbered(pl.concat([ripe, *green])).with_columns(
            pl.col(_LAST).max().over(_SESSION).alias("__until")
        )
        # A ripe fragment of a session that goes on lives on as one that reaches as far as the session does.
        going_on = (
            fragments.filter(pl.col(_RIPE) & (pl.col("__until") >= edge))
            .with_columns(pl.col("__until").alias(_LAST))
            .select(self._columns)
        )
        over = fragments.filter(pl.col("__until") < edge)
        self._fragments.expire(edge)
        self._fragments.append(going_on)
        return self._results(over)

    def _results(self, over: pl.DataFrame) -> pl.DataFrame | None:
        """Return the results of sessions that are over, from all their fragments."""
        if over.height == 0:
            return None
        names = self._aggregates.names
        merged = self._aggregates.merge(over, [_SESSION, *names], pl.col(_FIRST).min(), pl.col(_LAST).max())
        end = pl.col(_LAST) + self._gap
        return self._aggregates.results(merged.sort(_LAST, *names), start=pl.col(_FIRST), end=end, stamp=end)

    def _merge(self, fragments: pl.DataFrame) -> pl.DataFrame:
        ends = pl.col(_FIRST).min(), pl.col(_LAST).max()
        return self._aggregates.merge(self._numbered(fragments), [_SESSION, *self._aggregates.names], *ends).select(
            self._columns
        )

    def _numbered(self, fragments: pl.DataFrame) -> pl.DataFrame:
        """Number the sessions that the fragments form."""
        names = self._aggregates.names
        ordered = fragments.sort(*names, _FIRST)
        # NULL is a group too, hence ne_missing.
        groups = (
            pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in names).cum_sum()
            if names
            else pl.lit(0)
        )
        reach = pl.col(_LAST).cum_max().over("__group").shift(1)
        starts = (pl.col(_FIRST) - reach >= self._parted) | (pl.col("__group") != pl.col("__group").shift(1))
        return ordered.with_columns(groups.alias("__group")).with_columns(
            starts.fill_null(False).cum_sum().alias(_SESSION)
        )
