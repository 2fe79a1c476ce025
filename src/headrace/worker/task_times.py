"""The times that ingest tasks measured, on their way to the driver.

What a task sends to buckets is the same whenever it is run, so measured times cannot be part of it. A task leaves them
in a file, and the driver adds them to what the task counted. A file that is missing only means that a time is unknown.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.engine.statistics import VertexCounts
from headrace.storage import files
from headrace.worker.wire import TaskCounts


class TaskTimes(Struct, frozen=True):
    """The nanoseconds that a task took, all in all and by vertex."""

    busy_ns: int = 0
    vertices: dict[str, int] = {}


_decoder = msgspec.msgpack.Decoder(TaskTimes)


def leave_times(directory: Path, time: int, task: int, times: TaskTimes) -> None:
    """Leave the times of a task of the micro-batch of that time."""
    files.replace(_path(directory, time, task), msgspec.msgpack.encode(times), durable=False)


def with_times(directory: Path, time: int, counts: TaskCounts) -> TaskCounts:
    """Return what a task counted with the times that it left."""
    data = files.read_if_exists(_path(directory, time, counts.task))
    if data is None:
        return counts
    try:
        times = _decoder.decode(data)
    except ValueError:  # DecodeError is one
        return counts  # it was not forced to disk, and nothing depends on it
    vertices = {
        name: msgspec.structs.replace(vertex, busy_ns=times.vertices.get(name, 0))
        for name, vertex in counts.vertices.items()
    }
    return msgspec.structs.replace(counts, busy_ns=times.busy_ns, vertices=vertices)


def forget_times(directory: Path, time: int, tasks: list[int]) -> None:
    """Delete what tasks of a micro-batch left."""
    files.remove(*(_path(directory, time, task) for task in tasks), durable=False)


def without_times(vertices: dict[str, VertexCounts]) -> dict[str, VertexCounts]:
    """Return counts that are the same in every run."""
    return {name: msgspec.structs.replace(counts, busy_ns=0) for name, counts in vertices.items()}


def _path(directory: Path, time: int, task: int) -> Path:
    return directory / f"{time}.task{task}"
