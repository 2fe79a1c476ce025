"""What ALTER can set, and the command that each setting becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from headrace.commands.command import (
    Command,
    SetShedding,
    UseBreaks,
    UseEligibility,
    UseEts,
    UseFairness,
    UseFeedback,
    UseScheduler,
    UseStrategy,
)
from headrace.engine.dispatch.rules import strategy_named
from headrace.engine.scheduling.schedulers import scheduler_named
from headrace.errors import NameFault, QueryError
from headrace.language.names import did_you_mean
from headrace.language.syntax.statements import Alter
from headrace.model.qos import OPTIONS
from headrace.model.time import MILLISECOND, parse_duration
from headrace.operators.feedback.reach import REACHES


def command_of(statement: Alter) -> Command:
    """The command that carries an ALTER out."""
    setting = statement.setting
    make = SETTINGS.get(setting.text.lower())
    if make is None:
        promised = (
            f"promises stand in parentheses: SET ({setting.text} ...)" if setting.text.lower() in OPTIONS else None
        )
        hint = promised or did_you_mean(setting.text, list(SETTINGS))
        raise NameFault(f"no setting {setting.text!r}", span=setting.span, hint=hint)
    try:
        return make(statement)
    except QueryError as error:
        error.span = error.span or statement.value.span
        raise


def _strategy(statement: Alter) -> UseStrategy:
    strategy_named(statement.value.text)
    return UseStrategy(None if statement.query is None else statement.query.text, statement.value.text)


def _scheduler(statement: Alter) -> UseScheduler:
    scheduler_named(statement.value.text)
    return UseScheduler(None if statement.query is None else statement.query.text, statement.value.text.strip().lower())


def _fairness(statement: Alter) -> UseFairness:
    if statement.query is not None:
        raise QueryError(
            "what keeps queries from starving is the same for all",
            span=statement.query.span,
            hint="write ALTER SYSTEM SET fairness = ...",
        )
    word, _, rest = statement.value.text.lower().partition(" ")
    match word:
        case "dynamic" | "none" if not rest:
            return UseFairness(word)
        case "oldest":
            try:
                return UseFairness("oldest", parse_duration(rest) * 1000) if rest else UseFairness()
            except ValueError as error:
                raise QueryError(str(error)) from error
        case _:
            raise NameFault(
                f"no fairness {statement.value.text!r}",
                hint="choose 'oldest', 'oldest 50 ms' (or so), 'dynamic' or 'none'",
            )


def _eligibility(statement: Alter) -> UseEligibility:
    if statement.query is not None:
        raise QueryError(
            "who may have a turn is the same for all",
            span=statement.query.span,
            hint="write ALTER SYSTEM SET eligibility = ...",
        )
    text = statement.value.text.lower()
    if text == "none":
        return UseEligibility()
    found = re.fullmatch(r"(\d+) tuples?,? or (.+)", text)
    if found is None or not int(found[1]):
        raise NameFault(
            f"no eligibility {statement.value.text!r}",
            hint="choose '100 tuples or 500 ms' (or so), which counts for each operator, or 'none'",
        )
    try:
        return UseEligibility(int(found[1]), parse_duration(found[2]))
    except ValueError as error:
        raise QueryError(str(error)) from error


def _breaks(statement: Alter) -> UseBreaks:
    query = None if statement.query is None else statement.query.text
    match statement.value.text.lower():
        case "everywhere" | "none" as where:
            return UseBreaks(query, where)
        case other:
            raise NameFault(f"breaks cannot be {other!r}", hint="choose 'everywhere' or 'none'")


def _ets(statement: Alter) -> UseEts:
    if statement.query is not None:
        raise QueryError(
            "how streams tell their time is the same for all queries",
            span=statement.query.span,
            hint="write ALTER SYSTEM SET ets = ...",
        )
    word, _, rest = statement.value.text.lower().partition(" ")
    if word == "periodic" and rest:
        try:
            return UseEts("periodic", max(parse_duration(rest), MILLISECOND))
        except ValueError as error:
            raise QueryError(str(error)) from error
    found = {"none": UseEts("none"), "on demand": UseEts()}.get(statement.value.text.lower())
    if found is None:
        raise NameFault(
            f"no way {statement.value.text!r} to tell the time",
            hint="choose 'on demand', 'periodic 100 ms' (or so) or 'none'",
        )
    return found


def _feedback(statement: Alter) -> UseFeedback:
    if statement.query is not None:
        raise QueryError(
            "how far feedback goes is the same for all queries",
            span=statement.query.span,
            hint="write ALTER SYSTEM SET feedback = ...",
        )
    for reach in REACHES:
        if reach == statement.value.text.lower():
            return UseFeedback(reach)
    raise NameFault(f"feedback cannot go to {statement.value.text!r}", hint=f"choose one of {', '.join(REACHES)}")


def _shedding(statement: Alter) -> SetShedding:
    if statement.query is None:
        raise QueryError(
            "what is shed is a matter of each query",
            span=statement.setting.span,
            hint="write ALTER QUERY name SET shedding = 0.1",
        )
    text = statement.value.text.lower()
    if text in ("auto", "off"):
        return SetShedding(statement.query.text, None if text == "auto" else 0.0)
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise NameFault(
            f"shedding cannot be {statement.value.text!r}", hint="choose a share from 0 to less than 1, 'off' or 'auto'"
        )
    return SetShedding(statement.query.text, share)


SETTINGS: Mapping[str, Callable[[Alter], Command]] = {
    "strategy": _strategy,
    "scheduler": _scheduler,
    "fairness": _fairness,
    "eligibility": _eligibility,
    "breaks": _breaks,
    "ets": _ets,
    "feedback": _feedback,
    "shedding": _shedding,
}
