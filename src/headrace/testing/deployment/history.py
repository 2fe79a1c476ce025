"""Histories: what a user does, step by step, and a run of it on a simulated deployment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from headrace.connectors.spool import stream_spool
from headrace.errors import QueryError
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.storage import files
from headrace.storage.storage import mounted
from headrace.testing.clock import VirtualClock
from headrace.testing.deployment.disk import Image, SimulatedDisk
from headrace.testing.deployment.host import SimulatedDeployment, Tasks

#: When every history begins; long after its tuples, so that no result depends on the clock.
BEGINNING = 1_800_000_000 * SECOND


@dataclass(frozen=True, slots=True)
class Execute:
    """Run statements; after a crash the user runs them again."""

    text: str


@dataclass(frozen=True, slots=True)
class Push:
    """Append rows to a stream in two parts; after a crash the user appends again what is not there."""

    stream: str
    rows: tuple[Mapping[str, Any], ...]

    @property
    def parts(self) -> list[tuple[Mapping[str, Any], ...]]:
        half = len(self.rows) // 2
        return [part for part in (self.rows[:half], self.rows[half:]) if part]


@dataclass(frozen=True, slots=True)
class Write:
    """Change the file of a table, outside of the machine; `{tables}` in a text is its directory."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop the session and start another."""


@dataclass(frozen=True, slots=True)
class Drain:
    """End all streams and wait for the last result."""


Action: TypeAlias = Execute | Push | Write | Restart | Drain


@dataclass(frozen=True, slots=True)
class History:
    """Actions; the last is a drain. `{out}` in a text is the directory of results.

    Whenever work is measured, `tick` nanoseconds have passed since the last look at the clock.
    """

    name: str
    actions: tuple[Action, ...]
    seed: int = 0
    tick: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come: in which action it is, and whether the user knows that it was done."""

    action: int
    is_done: bool


@dataclass(slots=True)
class World:
    """What is outside of the machine: calls that rules made."""

    calls: list[tuple[str, str]] = field(default_factory=list)  # key and argument


class Run:
    """A process that does a history from a position on, with what the disk holds."""

    def __init__(
        self, history: History, root: Path, disk: SimulatedDisk, world: World, position: Position, *, buckets: int = 2
    ) -> None:
        self.history, self.root, self.disk, self.world, self.position = history, root, disk, world, position
        self.checkpoint = root / "checkpoint"
        self._buckets = buckets
        self._clock = VirtualClock(BEGINNING)
        self.session: Session | None = None
        self.after_batch: Callable[[], None] | None = None
        self.tasks: Tasks | None = None
        self.was_started = False  # the deployment of the last session

    def complete(self) -> None:
        """Do all that is left to do; call `after_batch` after each micro-batch."""
        try:
            self._do()
        finally:
            if self.session is not None:  # a process that has died owns nothing
                self.session._ownership.abandon()

    def _do(self) -> None:
        self._begin()
        while True:
            if not self.position.is_done:
                self._clock.sleep_until(BEGINNING + self.position.action * SECOND)
                self._act(self.history.actions[self.position.action])
                self.position = Position(self.position.action, True)
            self._settle()
            if self.position.action + 1 == len(self.history.actions):
                break
            self.position = Position(self.position.action + 1, False)
        self._end()

    def _begin(self) -> None:
        for action in self.history.actions[: self.position.action + self.position.is_done]:
            if isinstance(action, Write):
                self._act(action)
        self._clock = VirtualClock(BEGINNING + self.position.action * SECOND)
        self.session = Session(self.checkpoint, host=self._deployment)
        self.session.register("note", self._note)
        if self.session._running().known:
            self.session.start()

    def _deployment(self, directory: Path) -> SimulatedDeployment:
        deployment = SimulatedDeployment(
            directory, self._clock, buckets=range(self._buckets), limit=4, seed=self.history.seed, tasks=self.tasks
        )
        deployment.after_batch = self.after_batch
        return deployment

    def _end(self) -> None:
        assert self.session is not None
        self.was_started = self.session._started
        self.session.stop()

    def _act(self, action: Action) -> None:
        if isinstance(action, Write):
            tables = self.root / "tables"
            tables.mkdir(exist_ok=True)
            (tables / action.name).write_text(action.text)  # on the real disk, which does not crash
            return
        assert self.session is not None
        match action:
            case Execute(text=text):
                with suppress(QueryError):  # a statement that is refused does nothing
                    text = text.replace("{out}", str(self.root / "out")).replace("{tables}", str(self.root / "tables"))
                    self.session.execute(text)
            case Push(stream=stream):
                earlier = sum(
                    len(before.parts)
                    for before in self.history.actions[: self.position.action]
                    if isinstance(before, Push) and before.stream == stream
                )
                for number, part in enumerate(action.parts, earlier):
                    if _pushed(stream, self.checkpoint) == number:
                        self.session.push(stream, part)
            case Restart():
                self._end()
                self._begin()
            case Drain():
                self.session.drain()

    def _settle(self) -> None:
        assert self.session is not None
        deployment = self.session.deployment
        assert isinstance(deployment, SimulatedDeployment)
        while deployment.step():
            pass

    def _note(self, value: Any, *, key: str) -> None:
        self.world.calls.append((key, str(value)))


@contextmanager
def machine(root: Path, disk: SimulatedDisk, tick: int = 0) -> Iterator[None]:
    """Let a simulated disk hold a directory, and measure no real time: `tick` nanoseconds pass at each look."""
    real = time.perf_counter_ns
    time.perf_counter_ns = itertools.count(0, tick).__next__
    try:
        with mounted(root, disk):
            yield
    finally:
        time.perf_counter_ns = real


def results(root: Path, image: Image) -> dict[str, list[bytes]]:
    """Return the rows that each query has delivered, as sorted lines of JSON."""
    beginning = f"{root}/out/"
    rows: dict[str, list[bytes]] = {}
    for path, data in image.seen().items():
        if path.startswith(beginning) and "/_" not in path and "/." not in path:
            rows.setdefault(path[len(beginning) :].split("/", 1)[0], []).extend(data.splitlines())
    return {query: sorted(lines) for query, lines in sorted(rows.items()) if lines}


def _pushed(stream: str, checkpoint: Path) -> int:
    """Return how many times rows have been appended to a stream."""
    names = files.names(stream_spool(stream, checkpoint).directory)
    return max((int(name.split("-")[0]) + 1 for name in names if name.endswith(".arrow")), default=0)


def rows_of(*values: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
    """Return rows of a stream (at TIMESTAMP, k INT, v INT): second, key and value."""
    return tuple({"at": f"2026-01-01 00:00:{second:02d}", "k": k, "v": v} for second, k, v in values)
