"""A smart home: what rules predict and do is what was planted."""

import dataclasses
from pathlib import Path

import pytest

from headrace.applications.application import run
from headrace.applications.smart_home.application import SmartHome
from headrace.applications.smart_home.days import days
from headrace.session import Session


@pytest.mark.parametrize(("seed", "buckets"), [(2, 3), pytest.param(1, 1, marks=pytest.mark.slow)])
def test_every_planted_episode_is_found_and_every_light_follows_the_habit(
    tmp_path: Path, seed: int, buckets: int
) -> None:
    application = SmartHome(homes=3)
    with Session(host="local", buckets=buckets) as session:
        results = run(application, session, tmp_path, seed, timeout=60)
    checks = application.checks(seed, tmp_path, results)
    assert [check for check in checks if not check.holds] == []
    assert all(results[name] for name in ("stove", "police", "light"))
    fewer = {**results, "police": results["police"][1:]}
    assert not application.checks(seed, tmp_path, fewer)[1].holds


def test_habits_predict_most_steps() -> None:
    made = days(1, homes=3)
    lights = made.lights()
    entered: dict[int, list[tuple[int, str]]] = {}
    for at, home, room in made.records["motion"]:
        entered.setdefault(home, []).append((at, room))
    hits = 0
    for home, room, at in lights:
        after = sorted(step for step in entered[home] if step[0] > at)
        hits += bool(after) and after[0][1] == room
    assert hits > 0.7 * len(lights) > 100


def test_the_same_seed_gives_the_same_days() -> None:
    assert dataclasses.asdict(days(4)) == dataclasses.asdict(days(4)) != dataclasses.asdict(days(5))
