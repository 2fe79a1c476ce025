"""Tries crashes: a history is run once without a crash, then recovered from what the disk held after any of its steps.

The process that recovers knows only the disk. It repeats what the user does not know to be done and continues. If the
disk after a micro-batch is one from which a run is known to end well, the trial ends: a crash at that point is another
trial. Otherwise the history runs to its end, and its results are compared.
"""

from __future__ import annotations

import itertools
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from headrace.errors import HeadraceError
from headrace.testing.deployment.disk import Crashed, Image, SimulatedDisk
from headrace.testing.deployment.essence import Essence, essence
from headrace.testing.deployment.faults import flipped, killed, power_cuts, without
from headrace.testing.deployment.history import Execute, History, Position, Run, World, machine, results
from headrace.testing.deployment.host import Tasks

#: So many files that have been read may wait for the next micro-batch, which deletes them.
MAX_READ = 40
#: Every so many-th run goes on to its end, although another one was where it is.
TO_THE_END = 16
#: What decides how a run goes on: the position of the user, the calls that were made, and the disk.
State: TypeAlias = tuple[Position, frozenset[tuple[str, str]], Essence]
Ignored: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Moment:
    """The machine after one step of a run."""

    number: int
    step: str
    image: Image
    position: Position
    calls: int  # how many had been made


@dataclass(slots=True)
class Recording:
    """A run without a crash: all its moments, and what the disk was after each micro-batch."""

    history: History
    root: Path
    moments: list[Moment] = field(default_factory=list)
    known: set[State] = field(default_factory=set)
    results: dict[str, list[bytes]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    tasks: Tasks = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wrong:
    """What was wrong at the end of a run; `is_fault`: one of our errors ended it."""

    text: str
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A crash after which something was wrong."""

    history: History
    mode: str
    step: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.history.name}, {self.mode} after step {self.step} ({self.what}): {self.why}"


@dataclass(slots=True)
class Tally:
    """What was tried: crashes, those among them that were run because no other left the same disk, and violations."""

    crashes: int = 0
    runs: int = 0
    violations: list[Violation] = field(default_factory=list)


def record(history: History, root: Path, *, ignored: Ignored | None = None) -> Recording:
    """Run a history without a crash."""
    recording = Recording(history, root)
    disk, world = SimulatedDisk(ignored=ignored), World()
    run = Run(history, root, disk, world, Position(0, False))

    def note(step: str) -> None:
        label = step.replace(str(root), "")
        recording.moments.append(Moment(disk.steps, label, disk.image(), run.position, len(world.calls)))

    disk.note = note
    run.tasks = recording.tasks
    run.after_batch = lambda: recording.known.add(_state(recording, disk, run))
    with machine(root, disk, history.tick):
        run.complete()
    final = disk.image()
    recording.results, recording.calls = results(root, final), world.calls
    recording.leftovers = leftovers(root, final)
    return recording


class Trials:
    """Recovers from crashes of one recorded history."""

    def __init__(self, recording: Recording, tally: Tally, *, ignored: Ignored | None = None) -> None:
        self.recording, self.tally, self._ignored = recording, tally, ignored
        self._known: set[tuple[Position, int, frozenset[tuple[str, bytes]]]] = set()
        self._verdicts: dict[State, Wrong | None] = dict.fromkeys(recording.known)
        self._runs = 0

    def kills(self) -> None:
        """Kill the process after each step."""
        for moment in self.recording.moments:
            self.crash("kill", moment, killed(moment.image))

    def power_cuts(self, count: int, chance: random.Random, *, share: float = 1.0, stop: bool = False) -> None:
        """Cut the power after a share of the steps, with up to `count` outcomes; `stop` at the first violation."""
        moments = self.recording.moments
        for moment in chance.sample(moments, round(share * len(moments))):
            for image in power_cuts(moment.image, count, chance):
                self.crash("power cut", moment, image)
            if self.tally.violations and stop:
                return

    def random_crashes(self, count: int, chance: random.Random) -> None:
        """Kill the process, or cut the power, after random steps."""
        for _ in range(count):
            moment = chance.choice(self.recording.moments)
            self.crash("kill or power cut", moment, self._crashed(moment.image, chance))

    def histories_of_crashes(self, count: int, chance: random.Random) -> None:
        """Crash at random moments, then again while the next process recovers, several times in a row."""
        for _ in range(count):
            moment = chance.choice(self.recording.moments)
            image, position = self._crashed(moment.image, chance), moment.position
            world = World(self.recording.calls[: moment.calls])
            for _ in range(chance.randint(1, 3)):
                self.tally.crashes += 1
                disk = SimulatedDisk(image, ignored=self._ignored)
                disk.steps_to_live = chance.randint(1, 60)
                run = Run(
                    self.recording.history, self.recording.root, disk, world, position, buckets=self._buckets(image)
                )
                why = self._lived_through(run)
                if why is not None:
                    self._report("crashes in a row", moment, why)
                    break
                image, position = self._crashed(disk.image(), chance), run.position
            else:
                self.tally.crashes += 1
                self.tally.runs += 1
                why = self.recover(image, position, world)
                if why is not None:
                    self._report("crashes in a row", moment, why)

    def full_disks(self, count: int, chance: random.Random) -> None:
        """Let the disk be full from random steps on, for one write or for all; then free space and start again."""
        for _ in range(count):
            moment = chance.choice(self._beginnings())
            first, writes = chance.randrange(60), chance.choice((1, 3, 10**6))
            disk = SimulatedDisk(killed(moment.image), ignored=self._ignored)
            disk.is_full = range(first, first + writes).__contains__
            self.tally.crashes += 1
            self.tally.runs += 1
            world = World(self.recording.calls[: moment.calls])
            run = Run(self.recording.history, self.recording.root, disk, world, moment.position)
            why = self._lived_through(run) or self.recover(killed(disk.image()), run.position, world)
            if why is not None:
                self._report("full disk", moment, why)

    def flips(self, count: int, chance: random.Random) -> None:
        """Change one bit of one of our files while nothing runs: the results are right, or a fault says why not."""

        def change(image: Image, path: str) -> Image:
            return flipped(image, path, chance.randrange(8 * len(image.seen()[path])))

        self._damage("flipped bit in", count, chance, change)

    def deletions(self, count: int, chance: random.Random) -> None:
        """Delete one of our files while nothing runs, in the same way.

        Nothing but its name tells of a file with rows, results or calls that wait, so these stay.
        """

        def change(image: Image, path: str) -> Image:
            is_waiting = path.endswith((".arrow", ".calls")) and "/exchange/" not in path
            return image if is_waiting else without(image, path)

        self._damage("deleted", count, chance, change)

    def _damage(self, what: str, count: int, chance: random.Random, change: Callable[[Image, str], Image]) -> None:
        for _ in range(count):
            moment = chance.choice(self._beginnings())
            ours = [
                path
                for path, data in sorted(moment.image.seen().items())
                if path.startswith(f"{self.recording.root}/checkpoint/") and "/spark/" not in path and data
            ]
            if not ours:
                continue
            path = chance.choice(ours)
            image = change(moment.image, path)
            self.tally.crashes += 1
            self.tally.runs += 1
            why = self.recover(image, moment.position, World(self.recording.calls[: moment.calls]))
            if why is not None and not why.is_fault:
                self._report(f"{what} {path}", moment, why)

    def crash(self, mode: str, moment: Moment, image: Image) -> None:
        """Recover from what a crash left."""
        self.tally.crashes += 1
        key = (moment.position, moment.calls, frozenset(image.forced.items()))
        if key in self._known:
            return
        self._known.add(key)
        self.tally.runs += 1
        why = self.recover(image, moment.position, World(self.recording.calls[: moment.calls]))
        if why is not None:
            self._report(mode, moment, why)

    def recover(self, image: Image, position: Position, world: World) -> Wrong | None:
        """Run a history from a position on; return what was wrong."""
        recording = self.recording
        disk = SimulatedDisk(image, ignored=self._ignored)
        run = Run(recording.history, recording.root, disk, world, position, buckets=self._buckets(image))
        passed: list[State] = []

        def compare() -> None:
            state = _state(recording, disk, run)
            if state in self._verdicts:
                raise _Known(self._verdicts[state])
            passed.append(state)

        self._runs += 1
        if self._runs % TO_THE_END:
            run.after_batch, run.tasks = compare, recording.tasks
        try:
            with machine(recording.root, disk, recording.history.tick):
                run.complete()
            why = judge(recording, disk.image(), world, is_swept=run.was_started)
        except _Known as known:
            why = known.verdict
        except HeadraceError as error:
            why = Wrong(f"{type(error).__name__}: {error}", is_fault=True)
        except Exception:
            why = Wrong(traceback.format_exc(limit=-4))
        self._verdicts.update(dict.fromkeys(passed, why))
        return why

    def _lived_through(self, run: Run) -> Wrong | None:
        """Run until a fault ends it; return what was wrong: an error that is not one of ours."""
        run.tasks = self.recording.tasks
        is_full = run.disk.steps_to_live is None
        try:
            with machine(self.recording.root, run.disk, self.recording.history.tick):
                run.complete()
        except Crashed:
            return None
        except HeadraceError as error:
            return None if is_full else Wrong(f"{type(error).__name__}: {error}", is_fault=True)
        except Exception:
            return Wrong(traceback.format_exc(limit=-6))
        return None

    def _crashed(self, image: Image, chance: random.Random) -> Image:
        """Return the disk after the process died or the power failed."""
        return killed(image) if chance.randrange(2) else list(power_cuts(image, 3, chance))[-1]

    def _buckets(self, image: Image) -> int:
        """Return how many buckets the next process asks for: others than before, if the checkpoint keeps its own.

        One that begins again must ask for the same, since a statement that changes their number, and takes
        micro-batches for it, would do nothing: then random shedding drops other tuples.
        """
        return 3 if f"{self.recording.root}/checkpoint/buckets.json" in image.seen() else 2

    def _beginnings(self) -> list[Moment]:
        """Return the last moment before each action."""
        moments = self.recording.moments
        return [
            before for before, after in itertools.pairwise(moments) if after.position.action > before.position.action
        ]

    def _report(self, mode: str, moment: Moment, why: Wrong) -> None:
        violation = Violation(self.recording.history, mode, moment.number, moment.step, why.text)
        self.tally.violations.append(violation)


class _Known(BaseException):
    """How a run ends is known, because another one was where it is."""

    def __init__(self, verdict: Wrong | None) -> None:
        self.verdict = verdict


def _state(recording: Recording, disk: SimulatedDisk, run: Run) -> State:
    return run.position, frozenset(run.world.calls), essence(recording.root, disk.image().seen())


def judge(recording: Recording, image: Image, world: World, *, is_swept: bool = True) -> Wrong | None:
    """Return what differs from the undisturbed run; None: nothing. Without queries, nothing is started and swept."""
    delivered = results(recording.root, image)
    if delivered != recording.results:
        return Wrong(f"results differ: {_difference(recording.results, delivered)}")
    if {*world.calls} != {*recording.calls}:
        return Wrong(f"calls differ: {sorted({*recording.calls} ^ {*world.calls})[:3]}")
    more = leftovers(recording.root, image)
    if any(isinstance(action, Execute) and "DROP QUERY" in action.text for action in recording.history.actions):
        more = [name for name in more if "/_staging/" not in name]  # the sink of a dropped query is not opened again
    return Wrong(f"left over: {more[:3]}") if is_swept and len(more) > len(recording.leftovers) else None


def leftovers(root: Path, image: Image) -> list[str]:
    """Return the files that a finished deployment need not keep.

    A few that were read may come back after a power cut; the next micro-batch would delete them.
    """
    names = sorted(path.removeprefix(str(root)) for path in image.seen() if "/spark/" not in path)
    never = ("/_staging/", "/.", "/calls/", "/pause", "/exchange/")
    garbage = [name for name in names if any(part in name for part in never)]
    spooled = [name for name in names if name.endswith(".arrow") and not name.endswith("-0.arrow")]
    return garbage + spooled[MAX_READ:]


def _difference(expected: dict[str, list[bytes]], delivered: dict[str, list[bytes]]) -> str:
    texts = []
    for query in sorted({*expected, *delivered}):
        missing, more = list(expected.get(query, ())), []
        for row in delivered.get(query, ()):
            if row in missing:
                missing.remove(row)
            else:
                more.append(row)
        if missing or more:
            texts.append(f"{query} misses {missing[:3]}, has too much {more[:3]}")
    return "; ".join(texts)


def shortest(violations: list[Violation]) -> Iterator[str]:
    """Yield one violation of each kind, by what was wrong."""
    known: set[str] = set()
    for violation in violations:
        kind = violation.why[:60]
        if kind not in known:
            known.add(kind)
            yield str(violation)
