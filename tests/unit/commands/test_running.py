"""What is in force after commands."""

from __future__ import annotations

import msgspec
import pytest

from headrace.commands.command import (
    Command,
    Cost,
    DropQuery,
    SendFeedback,
    Set,
    ShedAt,
    UseCosts,
    UseShedders,
    UseTree,
    decode_command,
    encode_command,
)
from headrace.commands.running import Running
from headrace.commands.running_graph import reads_alike
from headrace.commands.settings import (
    Breaks,
    Budget,
    Eligibility,
    Ets,
    Fairness,
    FeedbackReach,
    Scheduler,
    Setting,
    ShedShare,
    Strategy,
)
from headrace.model.join_tree import flat, left_deep
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.pattern import Pattern

SETTINGS: list[Setting] = [
    Strategy("bfs"),
    Scheduler("edf", auto=True),
    Breaks("everywhere"),
    ShedShare(0.25),
    Fairness("dynamic"),
    Eligibility(100, 500_000),
    Budget("fixed", 2_000_000),
    Ets("periodic", 1000),
    FeedbackReach("results"),
]


def after(*commands: Command) -> Running:
    running = Running()
    for command in commands:
        running = running.after(decode_command(encode_command(command)))
    return msgspec.json.decode(msgspec.json.encode(running), type=Running)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_replaces_only_those_of_its_kind_and_query(setting: Setting) -> None:
    others = [other for other in SETTINGS if type(other) is not type(setting)]
    running = after(Set("q", setting), *(Set("q", other) for other in others), Set(None, setting), Set("q", setting))
    assert running.settings == (*(Set("q", other) for other in others), Set(None, setting), Set("q", setting))


def test_a_dropped_query_takes_its_settings_and_its_feedback_along() -> None:
    assumed = SendFeedback("q", Feedback(Intent.ASSUMED, Pattern()), since=0, until=None)
    running = after(*(Set("q", setting) for setting in SETTINGS), Set(None, Scheduler("fifo")), assumed, DropQuery("q"))
    assert running.settings == (Set(None, Scheduler("fifo")),)
    assert running.feedback == ()


def test_an_automatic_shed_share_is_none_that_a_user_chose() -> None:
    assert after(Set("q", ShedShare(0.25)), Set("p", ShedShare(0.0))).shed_shares == {"q": 0.25, "p": 0.0}
    assert after(Set("q", ShedShare(0.25)), Set("q", ShedShare(None))).shed_shares == {}


def test_what_the_controller_decides_replaces_what_it_decided_before() -> None:
    first, second = UseCosts({"a": Cost(1.0, 1.0, 8.0, 8.0)}), UseCosts({"b": Cost(2.0, 1.0, 8.0, 8.0)})
    running = after(first, UseShedders((ShedAt("a", 0, 0.5),)), second)
    assert (running.costs, running.shedders, running.commands) == (second.costs, (ShedAt("a", 0, 0.5),), 3)


def test_a_change_of_plan_with_a_number_that_was_there_does_nothing() -> None:
    first = UseTree("v", 1, left_deep([0, 1, 2]))
    running = Running().after(first)
    assert running.trees == {"v": first}
    again = running.after(UseTree("v", 1, flat(3), "stepwise"))
    assert again.trees == {"v": first}
    assert again.commands == 2
    later = UseTree("v", 2, flat(3), "parallel")
    assert again.after(later).trees == {"v": later}
    assert decode_command(encode_command(later)) == later
    assert reads_alike(running, again.after(later))
