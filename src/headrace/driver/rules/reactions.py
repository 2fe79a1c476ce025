"""The actions of rules for the detections of a delivered micro-batch.

Immediate rules come before deferred ones, and priority 1 before 2. Actions that change the deployment itself (raised
events, queries that start or stop) are part of the delivery, by batch number. Calls go to the outbox in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.connectors.spool import stream_spool
from headrace.driver.rules.counters import RuleCounters
from headrace.driver.rules.firing import Firing, failure, fire, in_order
from headrace.driver.rules.outbox import Outbox
from headrace.driver.rules.proposals import Decision, Proposal, Proposals
from headrace.errors import HeadraceError
from headrace.model.action import CASCADE, CallFunction, CallWebhook, RaiseEvent, SwitchQuery
from headrace.model.calendar import python_rows
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import format_duration
from headrace.operators.expressions.evaluate import compile_expr

#: Starts (True) or stops a query by name.
Switch = Callable[[str, bool], None]


class Reactions:
    """The rules of a deployment at work."""

    def __init__(self, directory: Path, *, threads: bool = True) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self.switch: Switch | None = None
        self._directory = directory
        self.counters = RuleCounters()
        self.outbox = Outbox(directory, self.functions, self.counters, threads=threads)
        self.proposals = Proposals(directory)
        self._has_resumed = False
        self.raised: dict[str, int] = {}  # events of the last micro-batch, with the earliest time of each

    def start(self) -> None:
        """Continue with the calls that an earlier run left, and with what was decided and not carried out."""
        self.outbox.start()
        if not self._has_resumed:
            self._has_resumed = True
            for proposal, decision in self.proposals.unfinished():
                self._carry_out(proposal, decision)

    def react(
        self, batch: int, running: Running, detected: Mapping[str, Sequence[Page]], now: int, *, ended: bool
    ) -> None:
        """Act on detections by rule; `ended`: nothing is read after this micro-batch."""
        rules = sorted((query for query in running.queries if query.reaction is not None), key=_rank)
        fired = [firing for rule in rules if (firing := self._firing(rule, detected.get(rule.query, ()))) is not None]
        for firing in fired:
            if firing.reaction.confirm is not None:
                self.proposals.put(firing, firing.reaction.confirm, now)
        if any(rule.reaction is not None and rule.reaction.confirm is not None for rule in rules):
            self.expire(now)
        firings = [firing for firing in fired if firing.reaction.confirm is None]
        self._switch(firings)
        self._raise(batch, firings, {stream.name for query in running.working for stream in query.streams}, ended)
        calls = [
            firing
            for firing in firings
            if any(isinstance(action, CallFunction | CallWebhook) for action in firing.reaction.actions)
        ]
        if calls:
            self.outbox.put(batch, calls)

    def decide(self, key: str, now: int, *, agrees: bool) -> Proposal:
        """Carry out a proposal, or drop it; at least once, also if the process stops meanwhile."""
        self.expire(now)
        proposal = self.proposals.find(key)
        decision: Decision = "confirmed" if agrees else "rejected"
        if not self.proposals.decide(proposal, decision, now):
            return self.decide(key, now, agrees=agrees)  # somebody was faster: the error says what was decided
        try:
            self._carry_out(proposal, decision)
        except OSError:
            self._has_resumed = False  # the next delivery does
            raise
        return proposal

    def expire(self, now: int) -> None:
        """Give up proposals whose time is over; they are in <rule>.failed."""
        for proposal in self.proposals.waiting():
            if proposal.expires <= now and self.proposals.decide(proposal, "expired", now):
                self._carry_out(proposal, "expired")

    def _carry_out(self, proposal: Proposal, decision: Decision) -> None:
        firing = proposal.firing
        calls = [at for at, action in enumerate(firing.reaction.actions) if not isinstance(action, SwitchQuery)]
        match decision:
            case "confirmed":
                self._switch([firing])
                if calls:
                    self.outbox.put(0, [firing])
            case "rejected":
                self.counters.add(firing.rule, given_up=len(calls))
            case "expired":
                row, limit = firing.detections()[0], format_duration(proposal.expires - proposal.proposed)
                why = f"nobody confirmed it within {limit}"
                numbers = range(len(firing.reaction.actions))
                self.outbox.keep(firing.rule, [failure(firing, 0, number, row, why, 0) for number in numbers])
                self.counters.add(firing.rule, given_up=len(calls))
        self.proposals.done(proposal)

    def _firing(self, rule: AddQuery, pages: Sequence[Page]) -> Firing | None:
        rows = in_order(pages)
        if rows is None or rule.reaction is None:
            return None
        if not rule.reaction.enabled:
            self.counters.add(rule.query, ignored=rows.height)
            return None
        calls = sum(isinstance(action, CallFunction | CallWebhook) for action in rule.reaction.actions)
        self.counters.add(rule.query, detections=rows.height, calls=rows.height * calls)
        return fire(rule.query, rule.reaction, rows) if rule.reaction.actions else None

    def _switch(self, firings: Sequence[Firing]) -> None:
        """Start and stop queries in the order of the detections, whatever rules they belong to.

        So a query ends up on or off as it would if each detection came in a micro-batch of its own.
        """
        switches = [
            (firing.reaction.deferred, instant, firing.reaction.priority, place, number, at)
            for place, firing in enumerate(firings)
            for number, action in enumerate(firing.reaction.actions)
            if isinstance(action, SwitchQuery)
            for at, instant in enumerate(firing.instants)
        ]
        latest: dict[str, bool] = {}
        for _, _, _, place, number, at in sorted(switches):
            firing = firings[place]
            action = firing.reaction.actions[number]
            if not isinstance(action, SwitchQuery) or latest.get(action.query) == action.on:
                continue  # it is on, or off, already
            latest[action.query] = action.on
            try:
                if self.switch is not None:
                    self.switch(action.query, action.on)
            except HeadraceError as error:
                self.outbox.keep(firing.rule, [failure(firing, at, number, firing.detections()[at], error.message, 1)])

    def _raise(self, batch: int, firings: Sequence[Firing], read: set[str], ended: bool) -> None:
        """Leave raised events for the next micro-batch, with the times of the detections.

        Those that no query reads are dropped.
        """
        raised: dict[str, list[pl.DataFrame]] = {}
        for firing in firings:
            for number, action in enumerate(firing.reaction.actions):
                if isinstance(action, RaiseEvent):
                    rows = self._raised(firing, number, action, ended)
                    if rows.height and action.event in read:
                        raised.setdefault(action.event, []).append(rows)
        self.raised = {}
        for event, frames in raised.items():
            rows = pl.concat(frames)
            stream_spool(event, self._directory).put(batch, rows)
            self.raised[event] = min(rows[TS].to_list())

    def _raised(self, firing: Firing, number: int, action: RaiseEvent, ended: bool) -> pl.DataFrame:
        """Return the tuples of an event; those beyond the limit of the cascade are failures."""
        rows = Page.decode(firing.rows).rows
        values = [compile_expr(expr).alias(name) for name, expr in action.columns]
        # a constant becomes a column of its own length, not of one row
        made = rows.with_columns(
            *values,
            compile_expr(action.cascade).cast(pl.Int32).alias(CASCADE),
            pl.Series(TS, firing.instants, dtype=pl.Int64),
        ).select([name for name, _ in action.columns] + [CASCADE, TS])
        limit = firing.reaction.effort.cascade
        failures = []
        for at, depth in enumerate(made[CASCADE].to_list()):
            if depth > limit or ended:
                why = (
                    f"{depth} rules in a row led to this, and {limit} is the limit"
                    if depth > limit
                    else "all streams are closed"
                )
                failures.append(failure(firing, at, number, python_rows(rows[at : at + 1])[0], why, 1))
        self.outbox.keep(firing.rule, failures)
        return made.clear() if ended else made.filter(pl.col(CASCADE) <= limit)


def _rank(rule: AddQuery) -> tuple[bool, int]:
    assert rule.reaction is not None
    return rule.reaction.rank
