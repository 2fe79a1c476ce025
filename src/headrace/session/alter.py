"""The settings that ALTER can change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from headrace.commands.settings import (
    Balancing,
    Breaks,
    Budget,
    Eligibility,
    Ets,
    Fairness,
    FeedbackReach,
    Grid,
    LocalPlans,
    MemoryLimit,
    Optimizer,
    Scheduler,
    Setting,
    ShedShare,
    Strategy,
)
from headrace.engine.dispatch.in_force import KINDS
from headrace.engine.dispatch.strategies import strategy_named
from headrace.engine.scheduling.schedulers import scheduler_named
from headrace.errors import NameFault, QueryError
from headrace.language.names import did_you_mean
from headrace.language.syntax.statements import Alter
from headrace.model.qos import OPTIONS, parse_size
from headrace.model.time import DAY, MILLISECOND, parse_duration
from headrace.operators.feedback.reach import REACHES

#: Settings that are the same for all queries.
OF_SYSTEM = frozenset(
    {"fairness", "eligibility", "budget", "ets", "feedback", "memory", "balancing", "local_plans", "grid"}
)
#: The least and the greatest budget (microseconds): less would not cover the choice of what runs.
MIN_BUDGET, MAX_BUDGET = MILLISECOND, DAY
#: Settings that only a query has.
OF_QUERY = frozenset({"shedding"})


def setting_of(statement: Alter) -> Setting:
    """Return the setting that an ALTER chooses."""
    written = statement.setting
    name = written.text.lower()
    if statement.buckets:
        bucket, span = statement.buckets[0]
        said = f"plans of joins can differ: ALTER QUERY name SET plan = '((a b) c)' IN BUCKET {bucket}"
        raise QueryError(f"{written.text} is the same in all buckets", span=span, hint=said)
    if name == "plan":
        raise QueryError(
            "plan is set for each query by itself",
            span=written.span,
            hint="write ALTER QUERY name SET plan = '((a b) c)', 'mjoin', 'left-deep' or 'auto'",
        )
    if name == "buckets":
        said = "write ALTER SYSTEM SET buckets = 8"
        raise QueryError("buckets are those of all queries", span=written.span, hint=said)
    if name not in SETTINGS:
        promised = f"promises stand in parentheses: SET ({written.text} ...)" if name in OPTIONS else None
        hint = promised or did_you_mean(written.text, [*SETTINGS, "buckets"])
        raise NameFault(f"unknown setting {written.text!r}", span=written.span, hint=hint)
    if name in OF_SYSTEM and statement.query is not None:
        hint = f"write ALTER SYSTEM SET {name} = ..."
        if name in OPTIONS:
            hint = f"a promise of one query stands in parentheses: SET ({name} '{statement.value.text}')"
        raise QueryError(f"{name} applies to all queries alike", span=statement.query.span, hint=hint)
    if name in OF_QUERY and statement.query is None:
        hint = f"write ALTER QUERY name SET {name} = 0.1"
        raise QueryError(f"{name} is set for each query by itself", span=written.span, hint=hint)
    try:
        return SETTINGS[name](statement.value.text)
    except QueryError as error:
        error.span = error.span or statement.value.span
        raise


def _strategy(text: str) -> Strategy:
    strategy_named(text)
    return Strategy(text)


def _scheduler(text: str) -> Scheduler:
    scheduler_named(text)
    return Scheduler(text.strip().lower())


def _fairness(text: str) -> Fairness:
    word, _, rest = text.lower().partition(" ")
    match word:
        case "dynamic" | "none" if not rest:
            return Fairness(word)
        case "oldest":
            return Fairness("oldest", _duration(rest) * 1000) if rest else Fairness()
        case _:
            hint = "choose 'oldest', 'oldest 50 ms' (or another time), 'dynamic' or 'none'"
            raise NameFault(f"fairness cannot be {text!r}", hint=hint)


def _eligibility(text: str) -> Eligibility:
    if text.lower() == "none":
        return Eligibility()
    limits = re.fullmatch(r"(\d+) tuples?,? or (.+)", text.lower())
    if limits is None or not int(limits[1]):
        hint = "choose '100 tuples or 500 ms' (or other limits), which apply to each operator, or 'none'"
        raise NameFault(f"eligibility cannot be {text!r}", hint=hint)
    return Eligibility(int(limits[1]), _duration(limits[2]))


def _budget(text: str) -> Budget:
    hint = "choose a time such as '50 ms' (1 ms or more), 'auto' or 'off'"
    match text.strip().lower():
        case "auto" | "off" as mode:
            return Budget(mode)
        case other:
            try:
                span = parse_duration(other)
            except ValueError:
                raise NameFault(f"budget cannot be {text!r}", hint=hint) from None
    if span < MIN_BUDGET:
        raise NameFault(f"budget cannot be {text!r}: it is less than 1 ms", hint=hint)
    if span > MAX_BUDGET:
        raise NameFault(f"budget cannot be {text!r}: it is more than 1 day", hint="choose 'off' for no limit")
    return Budget("fixed", span * 1000)


def _breaks(text: str) -> Breaks:
    where = text.strip().lower()
    if where in ("everywhere", "none"):
        return Breaks(where)
    places = [" ".join(place.split()).replace("behind ", "after ") for place in where.split(",")]
    for place in places:
        side, _, kind = place.partition(" ")
        if side not in ("before", "after"):
            hint = "choose 'everywhere', 'none' or places such as 'before join, after aggregate'"
            raise NameFault(f"breaks cannot be {place!r}", hint=hint)
        if kind not in KINDS:
            otherwise = f"kinds are {', '.join(KINDS)}"
            near = did_you_mean(kind, KINDS, otherwise=otherwise)
            raise NameFault(f"there is no kind of operator {kind!r}", hint=near)
    return Breaks(", ".join(dict.fromkeys(places)))


def _ets(text: str) -> Ets:
    word, _, rest = text.lower().partition(" ")
    match word, rest:
        case "none", "":
            return Ets("none")
        case "on", "demand":
            return Ets()
        case "periodic", rest if rest:
            return Ets("periodic", max(_duration(rest), MILLISECOND))
        case _:
            hint = "choose 'on demand', 'periodic 100 ms' (or another time) or 'none'"
            raise NameFault(f"ets cannot be {text!r}", hint=hint)


def _feedback(text: str) -> FeedbackReach:
    for reach in REACHES:
        if reach == text.lower():
            return FeedbackReach(reach)
    raise NameFault(f"feedback cannot go to {text!r}", hint=f"choose one of {', '.join(REACHES)}")


def _optimizer(text: str) -> Optimizer:
    match text.strip().lower():
        case "auto" | "off" as mode:
            return Optimizer(mode)
        case _:
            raise NameFault(f"optimizer cannot be {text!r}", hint="choose 'auto' or 'off'")


def _memory(text: str) -> MemoryLimit:
    hint = "choose an amount such as '2 GB', or 'off'"
    if text.strip().lower() == "off":
        return MemoryLimit()
    try:
        size = parse_size(text.strip())
    except ValueError:
        raise NameFault(f"memory cannot be {text!r}", hint=hint) from None
    if size < 1:
        raise NameFault(f"memory cannot be {text!r}: no state fits into it", hint=hint)
    return MemoryLimit(size)


def _balancing(text: str) -> Balancing:
    match text.strip().lower():
        case "auto" | "off" as mode:
            return Balancing(mode)
        case _:
            raise NameFault(f"balancing cannot be {text!r}", hint="choose 'auto' or 'off'")


def _local_plans(text: str) -> LocalPlans:
    match text.strip().lower():
        case "auto" | "off" as mode:
            return LocalPlans(mode)
        case _:
            raise NameFault(f"local_plans cannot be {text!r}", hint="choose 'auto' or 'off'")


def _grid(text: str) -> Grid:
    match text.strip().lower():
        case "auto" | "on" | "off" as mode:
            return Grid(mode)
        case _:
            raise NameFault(f"grid cannot be {text!r}", hint="choose 'auto', 'on' or 'off'")


def _shedding(text: str) -> ShedShare:
    if text.lower() in ("auto", "off"):
        return ShedShare(None if text.lower() == "auto" else 0.0)
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        hint = "choose a share from 0 to less than 1, 'off' or 'auto'"
        raise NameFault(f"shedding cannot be {text!r}", hint=hint)
    return ShedShare(share)


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise QueryError(str(error)) from error


SETTINGS: Mapping[str, Callable[[str], Setting]] = {
    "strategy": _strategy,
    "scheduler": _scheduler,
    "fairness": _fairness,
    "eligibility": _eligibility,
    "budget": _budget,
    "breaks": _breaks,
    "ets": _ets,
    "feedback": _feedback,
    "shedding": _shedding,
    "optimizer": _optimizer,
    "memory": _memory,
    "balancing": _balancing,
    "local_plans": _local_plans,
    "grid": _grid,
}
