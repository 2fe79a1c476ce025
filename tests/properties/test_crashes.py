"""Crashes after every step of short histories: nothing is lost, nothing is repeated, and every restart ends."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.commands import log
from headrace.testing.deployment.campaign import try_seed
from headrace.testing.deployment.crashes import Tally, Trials, record
from headrace.testing.deployment.histories import HISTORIES, JOINED, PRESSED, REPORTS, ROLLED, RULES, WINDOWS
from headrace.testing.deployment.history import History, Push
from headrace.testing.deployment.random_histories import random_history, shrunk
from headrace.testing.deployment.rivals import Rivals

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let snapshots take the place of commands in these short histories."""
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("checkpoint", "out"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_a_kill_after_any_step_changes_no_result(history: History, root: Path) -> None:
    tally = Tally()
    Trials(record(history, root), tally).kills()
    assert not tally.violations, "\n".join(map(str, tally.violations[:5]))
    assert tally.crashes > 200


#: Steps of a history after which the power is cut; `headrace bench crashes` cuts it after every step.
CUTS = 50


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_power_cuts_and_damage_change_no_result(history: History, root: Path) -> None:
    tally, recording = Tally(), record(history, root)
    trials = Trials(recording, tally)
    trials.power_cuts(3, random.Random(history.seed), share=min(0.3, CUTS / len(recording.moments)))
    trials.full_disks(20, random.Random(history.seed))
    trials.flips(60, random.Random(history.seed))
    trials.deletions(20, random.Random(history.seed))
    assert not tally.violations, "\n".join(map(str, tally.violations[:5]))
    assert tally.crashes > 200


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_a_process_that_was_replaced_and_goes_on_changes_no_result(history: History, root: Path) -> None:
    tally = Tally()
    rivals = Rivals(record(history, root), tally)
    rivals.takeovers(12, random.Random(history.seed))
    assert not tally.violations, "\n".join(map(str, tally.violations[:5]))
    assert rivals.outcomes.get("OwnerFault", 0) > 4


#: In the last, the number of buckets changes in a micro-batch, and random shedding follows.
@pytest.mark.parametrize("seed", [*range(6), 9300014])
def test_crashes_in_random_histories_change_no_result(seed: int, root: Path) -> None:
    outcome = try_seed(seed, root)
    assert outcome.crashes > 50
    assert not outcome.violations, "\n".join(outcome.violations[:3])


def test_a_history_that_fails_is_shrunk() -> None:
    history = random_history(5)
    pushes = [action for action in history.actions if isinstance(action, Push)]
    short = shrunk(history, lambda shorter: pushes[0] in shorter.actions and pushes[1] in shorter.actions)
    assert short.actions == (history.actions[0], *pushes[:2], history.actions[-1])


def test_an_undisturbed_run_delivers_what_the_statements_say(root: Path) -> None:
    recording = record(WINDOWS, root)
    assert recording.results["large"] == [
        b'{"k":%d,"v":%d,"note":"a long text, so that tasks stage these results"}' % row
        for row in ((1, 8), (1, 8), (2, 7), (2, 9))
    ]
    assert recording.results["counts"][:2] == [
        b'{"k":1,"n":1,"total":1,"window_end":"2026-01-01T00:00:02.000000"}',
        b'{"k":1,"n":1,"total":8,"window_end":"2026-01-01T00:00:06.000000"}',
    ]
    assert not recording.leftovers


def test_calls_are_made_once_if_nothing_goes_wrong(root: Path) -> None:
    calls = record(RULES, root).calls
    assert len(calls) == len({key for key, _ in calls}) == 3


def test_results_wait_for_larger_files_and_commands_for_a_snapshot(root: Path) -> None:
    recording = record(ROLLED, root)
    names = {path.removeprefix(f"{root}/") for path in recording.moments[-1].image.seen()}
    larger = [name for name in names if name.startswith("out/") and name.count("-") == 2]
    assert 1 < len(larger) < 8
    assert any(name.startswith("checkpoint/commands/snapshot-") for name in names)
    assert not [name for name in names if name.startswith("checkpoint/sinks/") and name.endswith(".arrow")]


def test_a_controller_that_is_pressed_decides(root: Path) -> None:
    image = record(PRESSED, root).moments[-1].image.seen()
    assert b"set_budget" in image[f"{root}/checkpoint/decisions.jsonl"]


def test_the_same_seed_gives_the_same_steps(root: Path) -> None:
    first, second = record(RULES, root), record(RULES, root)
    assert [moment.step for moment in first.moments] == [moment.step for moment in second.moments]
    assert first.calls == second.calls


@pytest.mark.parametrize(
    ("history", "part"),
    [
        (WINDOWS, "/exchange/"),
        (WINDOWS, "/commands/"),
        (WINDOWS, "/buckets.json"),
        (WINDOWS, "/out/"),
        (WINDOWS, "/spark/"),
        (ROLLED, "/sinks/"),
        (JOINED, "/progress.json"),
        (REPORTS, "/sources/headrace.shed/"),
        (RULES, "/sources/alarm/"),
        (RULES, "/calls/"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_are_not_forced_to_disk_are_found_out(history: History, part: str, root: Path) -> None:
    ignored: Callable[[str], bool] = lambda path: part in path  # noqa: E731
    tally = Tally()
    Trials(record(history, root, ignored=ignored), tally, ignored=ignored).power_cuts(6, random.Random(1), stop=True)
    assert tally.violations
