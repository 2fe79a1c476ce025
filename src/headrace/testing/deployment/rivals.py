"""Two processes on one checkpoint: one is stopped, another takes over, and the first goes on where it was.

Locks of the operating system do not help, as on machines that share nothing but a storage. Whatever the first process
does when it goes on, no result may change.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

from headrace.connectors import spool
from headrace.errors import HeadraceError
from headrace.storage import owner
from headrace.storage.fence import unfenced
from headrace.storage.storage import mounted
from headrace.testing.deployment.crashes import Recording, Tally, Trials, Violation, Wrong, judge
from headrace.testing.deployment.disk import Crashed, SimulatedDisk
from headrace.testing.deployment.faults import killed
from headrace.testing.deployment.history import Position, Run, World, machine


class Rivals:
    """Lets a process take over from one that was stopped in the middle of a recorded history."""

    def __init__(self, recording: Recording, tally: Tally) -> None:
        self.recording, self.tally = recording, tally
        self.outcomes: dict[str, int] = {}  # how the first processes ended

    def takeovers(self, count: int, chance: random.Random) -> None:
        """Stop the first process after random steps; the second one ends the history, or dies on its way."""
        for _ in range(count):
            step = chance.randrange(1, len(self.recording.moments))
            self.take_over(step, chance.choice((None, chance.randrange(60))))

    def take_over(self, step: int, steps_to_live: int | None) -> None:
        """Stop the first process after a step; the second one dies after so many steps of its own (None: never)."""
        self.tally.crashes += 1
        self.tally.runs += 1
        with _without_locks():
            wrong = self._take_over(step, steps_to_live)
        if wrong is not None:
            label = next(moment.step for moment in self.recording.moments if moment.number >= step)
            mode = "taken over" if steps_to_live is None else f"taken over for {steps_to_live} steps"
            self.tally.violations.append(Violation(self.recording.history, mode, step, label, wrong.text))

    def _take_over(self, step: int, steps_to_live: int | None) -> Wrong | None:
        recording = self.recording
        disk, world = SimulatedDisk(), World()
        first = Run(recording.history, recording.root, disk, world, Position(0, False))
        second: list[tuple[Run, Wrong | None, bool]] = []

        def stop(_: str) -> None:
            if disk.steps >= step:
                disk.note = None
                with mounted(first.checkpoint, unfenced(first.checkpoint)):
                    second.append(self._second(disk, world, first.position, steps_to_live))

        disk.note = stop
        first.tasks = recording.tasks
        ended = self._run(first)
        self.outcomes[ended] = self.outcomes.get(ended, 0) + 1
        ((run, wrong, has_died),) = second
        if wrong is not None:
            return wrong
        if has_died:
            position = first.position if ended == "end" else run.position
            return Trials(recording, Tally()).recover(killed(disk.image()), position, world)
        # what the first one leaves, such as a file that a task staged, is deleted by the next start
        return judge(recording, disk.image(), world, is_swept=False)

    def _second(
        self, disk: SimulatedDisk, world: World, position: Position, steps_to_live: int | None
    ) -> tuple[Run, Wrong | None, bool]:
        run = Run(self.recording.history, self.recording.root, disk, world, position)
        run.tasks = self.recording.tasks
        disk.steps_to_live = None if steps_to_live is None else disk.steps + steps_to_live
        wrong, has_died = None, False
        try:
            with machine(self.recording.root, disk, self.recording.history.tick):
                run.complete()
        except Crashed:
            has_died = True
        except Exception:
            wrong = Wrong(traceback.format_exc(limit=-6))
        disk.steps_to_live = None
        return run, wrong, has_died

    def _run(self, first: Run) -> str:
        """Run the process that is stopped; return how it ended."""
        try:
            with machine(self.recording.root, first.disk, self.recording.history.tick):
                first.complete()
        except HeadraceError as error:
            return type(error).__name__
        return "end"


@contextmanager
def _without_locks() -> Iterator[None]:
    """Let processes not lock each other out, neither by the operating system nor because they are one here."""
    with patch.object(owner, "lock", lambda file: True), patch.object(spool, "_appending", nullcontext()):
        yield
