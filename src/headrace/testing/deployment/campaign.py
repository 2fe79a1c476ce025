"""Many crashes of many random histories; one that goes wrong is shrunk to a short history."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.testing.deployment.crashes import Tally, Trials, record
from headrace.testing.deployment.history import History
from headrace.testing.deployment.random_histories import random_history, shrunk


@dataclass(frozen=True, slots=True)
class Outcome:
    """The crashes that were tried in one history, how many left a disk of their own, and what went wrong."""

    crashes: int
    violations: tuple[str, ...]
    runs: int = 0


def try_history(history: History, root: Path, *, stop: bool = False, every_step: bool = False) -> Outcome:
    """Crash a history at random moments, in all ways; `stop` after the first violation.

    With `every_step`, it is also killed after each step, and loses power there with up to three outcomes.
    """
    tally = Tally()
    for name in ("checkpoint", "out"):
        (root / name).mkdir(exist_ok=True)
    try:
        trials = Trials(record(history, root), tally)
    except HeadraceError as error:
        return Outcome(0, (f"{history.name} without a crash: {type(error).__name__}: {error}",))
    chance = random.Random(history.seed)
    for mode in (trials.random_crashes, trials.histories_of_crashes, trials.full_disks, trials.flips):
        mode(_COUNTS[mode.__name__], chance)
        if stop and tally.violations:
            break
    if every_step:
        trials.kills()
        trials.power_cuts(3, chance)
    again = f"python -m benches.crashes --only --seed {history.seed}" + (" --every-step" if every_step else "")
    return Outcome(tally.crashes, tuple(f"{violation}\n  {again}" for violation in tally.violations), tally.runs)


def try_seed(seed: int, root: Path, *, every_step: bool = False) -> Outcome:
    """Try the random history of a seed."""
    return try_history(random_history(seed), root, every_step=every_step)


def shrink(seed: int, root: Path, *, every_step: bool = False) -> str:
    """Return the shortest history that fails as that of a seed does, as text."""

    def violations(history: History) -> tuple[str, ...]:
        return try_history(history, root, stop=True, every_step=every_step).violations

    history = random_history(seed)
    if not violations(history):
        return f"{history.name}: no violation"
    shortest = shrunk(history, lambda shorter: bool(violations(shorter)))
    return "\n".join([*map(str, shortest.actions), *violations(shortest)])


_COUNTS = {"random_crashes": 60, "histories_of_crashes": 8, "full_disks": 4, "flips": 30}
