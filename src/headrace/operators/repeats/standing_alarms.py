"""Alarms that stand: each is let through whenever it has stood for a time, also while nothing comes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import TS
from headrace.model.suppression import Standing
from headrace.model.time import END
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up, kept_as
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.windows.slices import group_numbers

#: From when an alarm's time counts, and the last instant at which it stands by itself.
_SINCE, _UNTIL = "__since", "__until"
_ACTION = "__action"


class StandingAlarms(Operator):
    """Keeps one alarm a group: the tuple that it is now, the one that it began as, and its times."""

    def __init__(self, rule: Standing, names: Sequence[str], by: Sequence[Expr], old_names: Sequence[str]) -> None:
        self._time, self._span = rule.time, rule.span
        self._names = [*names, TS]
        self._old = dict(zip(self._names, old_names, strict=True))
        self._groups, self._by = tuple(by), [f"__by{i}" for i in range(len(by))]
        self._read = [compile_expr(expr).alias(name) for name, expr in zip(self._by, by, strict=True)]
        self._read.append(compile_expr(rule.action).alias(_ACTION))
        self._alarms = Slots("alarms", self._by)
        self._next: dict[int, int] = {}  # by slot: the first instant at which an alarm is let through or forgotten
        self._firing: dict[int, int] = {}  # by slot: the first at which one is let through

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if not len(page):
            return ()
        fresh = self._alarms.assign(page.rows.select(*self._names, *self._read))
        slots = fresh[SLOT].unique(maintain_order=True).to_list()
        kept = self._alarms.of(slots)
        alarms = pl.concat(kept) if kept else None
        steps = _Steps(self._time, self._span, fresh, alarms, self._by)
        tuples = self._tuples(fresh, alarms)
        self._replace(slots, self._state_of(tuples, steps, fresh, alarms))
        return self._page(tuples, steps.let_new, steps.let_old, np.array(steps.let_at, np.int64))

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        slots = [slot for slot, instant in self._next.items() if instant < mark.bound]
        out: list[Element] = []
        if slots:
            alarms = pl.concat(self._alarms.of(slots))
            since, until = alarms[_SINCE].to_numpy(), alarms[_UNTIL].to_numpy()
            count = np.maximum((np.minimum(until, mark.bound - 1) - since) // self._time, 0)
            who = np.repeat(np.arange(alarms.height), count)
            turn = np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count) + 1
            out += self._page(self._tuples(None, alarms), who, who + alarms.height, since[who] + turn * self._time)
            later = alarms.with_columns(pl.Series(_SINCE, since + count * self._time))
            self._replace(slots, later.filter(pl.Series(until >= mark.bound)))
        return (*out, mark)

    def state(self) -> State:
        return self._alarms.state()

    def restore(self, state: State) -> None:
        self._alarms.restore(state)
        self._note_all()

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given = given_up(alarms=self._alarms.give(chosen_by(choose, kept_as(keys[0], self._groups, self._by))))
        self._note_all()
        return given

    def take(self, given: State) -> None:
        self._alarms.take(given["alarms"])
        self._note_all()

    def held(self) -> int:
        return len(self._alarms)

    def due(self) -> int | None:
        instant = min(self._firing.values(), default=END)
        return None if instant >= END else instant + 1

    def _tuples(self, fresh: pl.DataFrame | None, alarms: pl.DataFrame | None) -> pl.DataFrame:
        """Return what alarms are now, what they began as, and what is fresh, one below the other."""
        parts = (
            []
            if alarms is None
            else [alarms.select(self._names), alarms.select(pl.col(old).alias(name) for name, old in self._old.items())]
        )
        return pl.concat([*parts, *([] if fresh is None else [fresh.select(self._names)])])

    def _state_of(
        self, tuples: pl.DataFrame, steps: _Steps, fresh: pl.DataFrame, alarms: pl.DataFrame | None
    ) -> pl.DataFrame:
        """Return the alarms that stand now."""
        keys = [SLOT, *self._by]
        owners = fresh.select(keys) if alarms is None else pl.concat([alarms.select(keys), fresh.select(keys)])
        began = tuples[steps.old].select(pl.col(name).alias(old) for name, old in self._old.items())
        times = pl.DataFrame({_SINCE: steps.since, _UNTIL: steps.until}, schema={_SINCE: pl.Int64, _UNTIL: pl.Int64})
        return pl.concat([owners[steps.owner], tuples[steps.new], began, times], how="horizontal")

    def _page(
        self, tuples: pl.DataFrame, new: Sequence[int] | np.ndarray, old: Sequence[int] | np.ndarray, stamps: np.ndarray
    ) -> list[Element]:
        if not len(stamps):
            return []
        began = tuples[old].select(pl.col(name).alias(renamed) for name, renamed in self._old.items())
        alarms = pl.concat([tuples[new].drop(TS), began], how="horizontal").with_columns(
            pl.Series(TS, stamps, pl.Int64)
        )
        return [Page(alarms.sort(TS, maintain_order=True))]

    def _replace(self, slots: list[int], alarms: pl.DataFrame) -> None:
        self._alarms.replace(slots, alarms)
        self._note(slots)

    def _note_all(self) -> None:
        self._next, self._firing = {}, {}
        self._note({int(rows[SLOT][0]) for rows in self._alarms.rows()})

    def _note(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._next.pop(slot, None)
            self._firing.pop(slot, None)
            for rows in self._alarms.of([slot]):
                fires = rows[_SINCE].to_numpy() + self._time
                until = rows[_UNTIL].to_numpy()
                self._next[slot] = int(np.minimum(fires, until).min())
                if (fires <= until).any():
                    self._firing[slot] = int(fires[fires <= until].min())


class _Steps:
    """Goes through the fresh tuples of each group in order.

    Tuples are meant by number: those that the alarms before are, those that they began as, then the fresh ones.
    """

    def __init__(self, time: int, span: int, fresh: pl.DataFrame, alarms: pl.DataFrame | None, by: list[str]) -> None:
        before = 0 if alarms is None else alarms.height
        keys = (
            fresh.select(SLOT, *by)
            if alarms is None
            else pl.concat([alarms.select(SLOT, *by), fresh.select(SLOT, *by)])
        )
        numbered = keys.with_columns(pl.int_range(before + fresh.height).alias("__row"))
        numbered = numbered.sort(by, maintain_order=True) if by else numbered
        groups = group_numbers(numbered, by).tolist()
        since_before = [] if alarms is None else alarms[_SINCE].to_list()
        until_before = [] if alarms is None else alarms[_UNTIL].to_list()
        stamps, actions = fresh[TS].to_list(), fresh[_ACTION].to_list()
        self.owner, self.new, self.old = list[int](), list[int](), list[int]()
        self.since, self.until = list[int](), list[int]()
        self.let_new, self.let_old, self.let_at = list[int](), list[int](), list[int]()
        new, old, since, until, owner, group = -1, -1, 0, 0, -1, -1
        for row, number in zip([*numbered["__row"].to_list(), -1], [*groups, -1], strict=True):
            if number != group:
                if new >= 0:
                    self._stands(owner, new, old, since, until)
                group, new = number, -1
                if row < 0:
                    break
            owner = row
            if row < before:
                new, old, since, until = row, before + row, since_before[row], until_before[row]
                continue
            stamp, action, mine = stamps[row - before], actions[row - before], before + row
            while new >= 0 and since + time < stamp and since + time <= until:
                since += time
                self._let(new, old, since)
            if new >= 0 and until < stamp:
                new = -1  # it was forgotten
            if action == "clean":
                new = -1
            elif new < 0 or action == "update":
                old = mine if new < 0 else old
                new, since, until = mine, stamp, stamp + span

    def _stands(self, owner: int, new: int, old: int, since: int, until: int) -> None:
        self.owner.append(owner)
        self.new.append(new)
        self.old.append(old)
        self.since.append(since)
        self.until.append(until)

    def _let(self, new: int, old: int, stamp: int) -> None:
        self.let_new.append(new)
        self.let_old.append(old)
        self.let_at.append(stamp)
