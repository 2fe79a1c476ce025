"""Decisions are kept, and not without end."""

from __future__ import annotations

from pathlib import Path

from headrace.control.decisions import MOST, Decision, Decisions
from headrace.session import Listing, Session


def test_decisions_survive_a_restart_and_old_ones_go(tmp_path: Path) -> None:
    kept = Decisions(tmp_path)
    for number in range(3 * MOST):
        kept.add(Decision(number, None, "shed more", "load 1.2"))
    again = Decisions(tmp_path).all()
    assert MOST <= len(again) <= 2 * MOST
    assert again[-1].time == 3 * MOST - 1
    assert [decision.time for decision in again] == list(range(again[0].time, 3 * MOST))


def test_they_are_shown(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.deployment.controller.decisions.add(
            Decision(0, "dear", "schedule by edf", "what must be quick comes first")
        )
        (shown,) = session.execute("SHOW DECISIONS")
    assert isinstance(shown, Listing)
    assert [row[1:] for row in shown.rows] == [("dear", "schedule by edf", "what must be quick comes first")]
