"""What can go wrong while a deployment runs, as functions that make it happen.

A fault that is survived leaves the process running. One that ends the process returns what to undo before the next
start: an operator frees the disk, or gives the folder back.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from benches.parts.sinks import CASES
from benches.parts.supervisor import Ended, Role, Supervisor

#: Undoes a fault.
Undo: TypeAlias = Callable[[], None]
#: Files can grow to so many bytes where no file can grow: nothing at all, or part of what should be written.
_ROOM = (0, 500, 5_000)


class Harm(Exception):
    """A fault had an effect that it must not have."""


def _kill(role: Role) -> Callable[[Supervisor, random.Random], None]:
    def fault(supervisor: Supervisor, chance: random.Random) -> None:
        if pids := supervisor.members(role):
            supervisor.signal(signal.SIGKILL, [chance.choice(pids)])

    return fault


def _freeze(role: Role | None) -> Callable[[Supervisor, random.Random], None]:
    """Stop one process of a kind, or all processes, and let them continue after a while."""

    def fault(supervisor: Supervisor, chance: random.Random) -> None:
        pids = supervisor.members(role)
        if role is not None and pids:
            pids = [chance.choice(pids)]
        supervisor.signal(signal.SIGSTOP, pids)
        time.sleep(chance.uniform(0.2, 3.0))
        supervisor.signal(signal.SIGCONT, pids)

    return fault


def _kill_broker(supervisor: Supervisor, chance: random.Random) -> None:
    """Kill the broker, and start it again after a while."""
    assert supervisor.broker is not None
    supervisor.broker.kill()
    time.sleep(chance.uniform(0.0, 3.0))
    supervisor.broker.start()


def _freeze_broker(supervisor: Supervisor, chance: random.Random) -> None:
    assert supervisor.broker is not None
    supervisor.broker.signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 3.0))
    supervisor.broker.signal(signal.SIGCONT)


def _second_process(supervisor: Supervisor, chance: random.Random) -> None:
    """Start the same command on the checkpoint: it must be refused."""
    ended = supervisor.run(*chance.choice(([], ["--once"]))).wait(60)
    if ended.code != 1 or "in use by" not in ended.output:
        raise Harm(f"a second process on the checkpoint ended with code {ended.code}: {ended.output[-500:]}")


def _kill_all(supervisor: Supervisor, chance: random.Random) -> Undo:
    supervisor.kill_all()
    return _nothing


def _orphan_jvm(supervisor: Supervisor, chance: random.Random) -> Undo:
    """Kill the driver while the JVM and its workers do not run; they continue when the next driver has started."""
    others = [pid for pid in supervisor.members() if pid != supervisor.running.process.pid]
    supervisor.signal(signal.SIGSTOP, others)
    supervisor.signal(signal.SIGKILL, [supervisor.running.process.pid])
    alarm = threading.Timer(chance.uniform(0.5, 20.0), supervisor.signal, (signal.SIGCONT, others))
    alarm.daemon = True
    alarm.start()
    return _nothing


def _signal(*numbers: int) -> Callable[[Supervisor, random.Random], Undo]:
    """Send signals to the driver, as a service manager or an impatient user does."""

    def fault(supervisor: Supervisor, chance: random.Random) -> Undo:
        for number in numbers:
            supervisor.signal(number, [supervisor.running.process.pid])
            time.sleep(chance.uniform(0.05, 0.5))
        return _nothing

    return fault


def _ending(fault: Callable[[Supervisor, random.Random], None]) -> Callable[[Supervisor, random.Random], Undo]:
    def ending(supervisor: Supervisor, chance: random.Random) -> Undo:
        fault(supervisor, chance)
        return _nothing

    return ending


def _full_checkpoint(supervisor: Supervisor, chance: random.Random) -> Undo:
    """Fill the disk of the checkpoint."""
    supervisor.disk.fill()
    return supervisor.disk.free


def _no_room(role: Role | None) -> Callable[[Supervisor, random.Random], Undo]:
    """Let every write of a process, or of all, fail beyond some bytes, in the checkpoint and in sinks.

    The error is "File too large" instead of "No space left on device", which takes the same ways.
    """

    def fault(supervisor: Supervisor, chance: random.Random) -> Undo:
        room = chance.choice(_ROOM)
        for pid in supervisor.members(role):
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            except ProcessLookupError:
                continue
        return _nothing  # the limit goes with the processes

    return fault


def _folder_is_a_file(supervisor: Supervisor, chance: random.Random) -> Undo:
    """Replace the folder of a sink by a file, as a missing mount or a wrong move does."""
    folder = _sink_folder(supervisor, chance)
    away = folder.with_name(f".{folder.name}")
    folder.rename(away)
    folder.touch()

    def undo() -> None:
        folder.unlink()
        away.rename(folder)

    return undo


def _folder_is_read_only(supervisor: Supervisor, chance: random.Random) -> Undo:
    """Forbid new files in the folder of a sink, for the superuser as well; modes alone would not stop that one."""
    folder = _sink_folder(supervisor, chance)
    _set_immutable(folder, True)
    return lambda: _set_immutable(folder, False)


def _sink_folder(supervisor: Supervisor, chance: random.Random) -> Path:
    # a sink whose results come all the time, so that the fault is met
    names = [case.name for case in CASES if case.name in ("dear", "counts", "pairs", "both", "named", "offers")]
    return supervisor.out / chance.choice(names)


def _set_immutable(folder: Path, is_immutable: bool) -> None:
    subprocess.run(["chattr", "+i" if is_immutable else "-i", str(folder)], check=True, capture_output=True)


def possible(supervisor: Supervisor) -> list[str]:
    """Return the faults of `ENDING` that this user can cause: some take rights that few users have."""
    missing = {FULL_DISK: not supervisor.disk.is_mounted, READ_ONLY: not _can_be_immutable(supervisor.folder)}
    return [name for name in ENDING if not missing.get(name)]


def survivable(supervisor: Supervisor) -> dict[str, int]:
    """Return the faults of `SURVIVED` that can be caused here, and how often each is to come."""
    rare = (SECOND, BROKER_KILLED)
    absent = (BROKER_KILLED, BROKER_STOPPED) if supervisor.broker is None else ()
    return {name: 1 if name in rare else 3 for name in SURVIVED if name not in absent}


def _can_be_immutable(folder: Path) -> bool:
    if shutil.which("chattr") is None:
        return False
    try:
        _set_immutable(folder, True)
        _set_immutable(folder, False)
    except subprocess.CalledProcessError:
        return False
    return True


def _nothing() -> None:
    pass


SECOND = "second process"
BROKER_KILLED, BROKER_STOPPED = "broker killed and started again", "broker stopped for a while"
#: Faults that a deployment survives.
SURVIVED: Mapping[str, Callable[[Supervisor, random.Random], None]] = {
    "worker killed": _kill("worker"),
    "worker daemon killed": _kill("daemon"),
    "worker stopped for a while": _freeze("worker"),
    "JVM stopped for a while": _freeze("JVM"),
    "driver stopped for a while": _freeze("driver"),
    "everything stopped for a while": _freeze(None),
    SECOND: _second_process,
    BROKER_KILLED: _kill_broker,
    BROKER_STOPPED: _freeze_broker,
}
FULL_DISK, READ_ONLY = "disk of the checkpoint full", "sink folder is read-only"
#: Faults that end the process.
ENDING: Mapping[str, Callable[[Supervisor, random.Random], Undo]] = {
    "driver killed": _ending(_kill("driver")),
    "driver killed, JVM outlives it": _orphan_jvm,
    "JVM killed": _ending(_kill("JVM")),
    "planning process killed": _ending(_kill("planner")),
    "everything killed": _kill_all,
    "SIGTERM": _signal(signal.SIGTERM),
    "SIGINT": _signal(signal.SIGINT),
    "SIGINT twice": _signal(signal.SIGINT, signal.SIGINT),
    "no file can grow, driver": _no_room("driver"),
    "no file can grow, all": _no_room(None),
    FULL_DISK: _full_checkpoint,
    "sink folder is a file": _folder_is_a_file,
    READ_ONLY: _folder_is_read_only,
}
#: The fault that may come while the process is starting.
STARTING = "killed while starting"


def kill_while_starting(supervisor: Supervisor, chance: random.Random) -> Ended:
    """Kill the driver or everything at a random moment of a start."""
    time.sleep(chance.uniform(0.2, 9.0))
    if chance.random() < 0.5:
        supervisor.kill_all()
    else:
        supervisor.signal(signal.SIGKILL, [supervisor.running.process.pid])
    return supervisor.end()
