"""The experiments on machines that share partitions (E16 to E20): verdicts that can come out bad."""

from __future__ import annotations

import math

from headrace.experiments.plans import balancing
from headrace.experiments.plans.balancing import Point
from headrace.experiments.sample import Sample
from headrace.testing.simulation.machines import Moment, Relocation, Shares


def verdicts(findings):
    return [finding.verdict for finding in findings]


def shares(out: int, rows: int = 100, moves: list[Relocation] | None = None) -> Shares:
    return Shares([Moment(float(time), out * time // 90, rows, 0, 0, 0.5) for time in range(91)], moves or [])


def test_what_moves_and_plans_bring_is_judged():
    good = {"none": 100, "LM": 200, "PTLB": 200, "LM and PTLB": 330, "MSLB": 180, "LM and MSLB": 270}
    runs = {name: shares(out, 100 if name == "none" else 40) for name, out in good.items()}
    assert set(verdicts(balancing._first(runs))) == {"confirmed"}
    assert set(verdicts(balancing._first({name: shares(100 if name == "none" else 50) for name in good}))) == {
        "not confirmed"
    }


def point(rate: float, window: float, parallel: float, moving: float, lengths: tuple[float, float], left: int) -> Point:
    gains = {"PTLB": Sample((parallel,)), "MSLB": Sample((moving,))}
    return Point(rate, window, gains, {"PTLB": (lengths[0],), "MSLB": (lengths[1],)}, {"PTLB": left, "MSLB": 0})


def test_gains_by_rate_and_window_are_judged():
    good = [
        point(rate, window, 1.9 if window == 15 else 1.5, 2.0 if window == 15 else 1.9, (30, 2), 0)
        for rate in (30, 40, 50)
        for window in (15, 60)
    ]
    assert set(verdicts(balancing._rates(good))) == {"confirmed"}
    bad = [point(rate, window, window / 60, 1.0, (1, 1), 0) for rate in (30, 40, 50) for window in (15, 60)]
    assert set(verdicts(balancing._rates(bad))) == {"not confirmed"}


def test_lengths_of_moves_are_judged():
    as_published = [point(50, 15, 1, 1, (30.0, 1.0), 0), point(50, 60, 1, 1, (120.0, 1.0), 0)]
    assert verdicts(balancing._lengths(as_published)) == ["confirmed", "not confirmed", "confirmed", "not comparable"]
    ours = [point(50, 15, 1, 1, (15.0, 14.0), 3)]
    findings = list(balancing._lengths(ours))
    assert verdicts(findings) == ["not confirmed", "confirmed", "not confirmed", "not comparable"]
    assert findings[-1].ours == 3.0
    never = [Point(50, 15, {}, {"PTLB": (), "MSLB": ()}, {"PTLB": 1, "MSLB": 0})]
    assert "not comparable" in verdicts(balancing._lengths(never))


def test_large_states_are_judged():
    def moves(rows: int) -> list[Relocation]:
        return [
            Relocation("PTLB", 0, {1: 2, 3: 4}, 36.0, rows=rows),
            Relocation("PTLB", 0, {5: 2}, 50.0, ended=math.inf, rows=10**6),
        ]

    good = {"PTLB": shares(200, moves=moves(10)), "MSLB": shares(100, moves=moves(100))}
    assert verdicts(balancing._big_states(good)) == ["confirmed"] * 3
    bad = {"PTLB": shares(100, moves=moves(100)), "MSLB": shares(200, moves=moves(10))}
    assert verdicts(balancing._big_states(bad)) == ["not confirmed"] * 3
