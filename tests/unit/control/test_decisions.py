"""Decisions are kept, and not without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.control.decision_log import MIN_KEPT, DecisionLog
from headrace.control.decisions import (
    Decision,
    Defer,
    EndDeferral,
    LeaveUnread,
    NoteShortfall,
    Overload,
    SetBudget,
    ShedBefore,
    UseScheduler,
)
from headrace.control.promise_checks import PromiseCheck
from headrace.model.qos import Strictness
from headrace.session import Listing, Session

BROKEN = PromiseCheck("latency", Strictness.MUST, 2e6, 3e6)
DECISIONS: list[Decision] = [
    SetBudget(2_000_000),
    SetBudget(None),
    LeaveUnread("asks", True, 600_000),
    UseScheduler(None, "edf", budget=True),
    UseScheduler("dear", "segment", (BROKEN,), {"segment": 1.0, "chain": 0.5}, in_circles=True),
    Defer("filter bids", 0.4),
    EndDeferral("filter bids"),
    ShedBefore("dear", "filter bids", 0.2, Overload(1.2, 0.84, 0.1)),
    ShedBefore("dear", "filter bids", 0.0, None),
    NoteShortfall(1.4, 0.1),
]


def test_decisions_survive_a_restart_and_old_ones_go(tmp_path: Path) -> None:
    kept = DecisionLog(tmp_path)
    for number in range(3 * MIN_KEPT):
        kept.add(number, [SetBudget(number)])
    again = DecisionLog(tmp_path).all()
    assert MIN_KEPT <= len(again) <= 2 * MIN_KEPT
    assert again[-1].time == 3 * MIN_KEPT - 1
    assert [decided.time for decided in again] == list(range(again[0].time, 3 * MIN_KEPT))


@pytest.mark.parametrize("decision", DECISIONS)
def test_every_decision_comes_back_from_the_log(decision: Decision, tmp_path: Path) -> None:
    DecisionLog(tmp_path).add(7, [decision])
    (decided,) = DecisionLog(tmp_path).all()
    assert decided.decision == decision


def test_they_are_shown(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.deployment.control.decisions.add(0, [UseScheduler(None, "edf", budget=True)])
        (shown,) = session.execute("SHOW DECISIONS")
    assert isinstance(shown, Listing)
    assert [row[1:] for row in shown.rows] == [("all", "schedule by edf", "strict latency promises come first")]
