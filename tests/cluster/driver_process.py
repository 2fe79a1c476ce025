"""A program that runs sessions on a cluster, as the tests ask for it on standard input: a line of JSON per request.

A request names a function: of `JOBS`, of `LOOKS`, or of another module as `module:function`. Those of `LOOKS` are
answered at once, the others one after the other.
"""

from __future__ import annotations

import importlib
import json
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.delivery import Delivery
from headrace.hosts.spark.starting.context import session_for
from headrace.hosts.spark.starting.launch import launch_of
from headrace.session import Listing, Session


@dataclass(frozen=True, slots=True)
class Run:
    """A session and the streaming query that it started first.

    For each micro-batch, `sent` has the bytes that a task sent on average, and `took` how many milliseconds it took.
    """

    session: Session
    query: StreamingQuery
    sent: list[float]
    took: list[float]


_runs: dict[str, Run] = {}


def start(checkpoint: str, text: str, **options: Any) -> None:
    """Run statements in a session of their own."""
    session = Session(checkpoint, **options)
    sent, taken = list[float](), list[float]()
    _note(session.deployment.delivery, sent, taken)
    session.execute(text)
    _runs[checkpoint] = Run(session, session.deployment.query, sent, taken)  # type: ignore[attr-defined]


def _note(delivery: Delivery, sent: list[float], taken: list[float]) -> None:
    """Note after each delivery how many bytes a task sent, on average, and how long the micro-batch took."""
    deliver = delivery.deliver

    def noted(*arguments: Any, **options: Any) -> bool:
        is_ended = deliver(*arguments, **options)
        sent.append(delivery.statistics.sent.bytes / delivery.statistics.sent.tasks)
        taken.append(delivery.statistics.batch_ms or 0.0)
        return is_ended

    delivery.deliver = noted  # type: ignore[method-assign]


def execute(checkpoint: str, text: str) -> None:
    """Run further statements in a session."""
    _runs[checkpoint].session.execute(text)


def drain(checkpoint: str) -> dict[str, Any]:
    """Wait until everything is read and delivered.

    Return whether Spark's query failed on the way, and how many bytes a task sent in the greatest micro-batch.
    """
    run = _runs[checkpoint]
    run.session.drain()
    del _runs[checkpoint]
    return {
        "is_restarted": run.query.exception() is not None,
        "batches": run.session.statistics().batch + 1,
        "sent": max(run.sent, default=0.0),
    }


def stop(checkpoint: str) -> None:
    """Stop a session between two micro-batches."""
    _runs.pop(checkpoint).session.stop()


def rescale(checkpoint: str, cores: int) -> list[int]:
    """Divide the state of a checkpoint that nobody uses; return how many buckets it has, and parts before and after."""
    with Session(checkpoint) as session:
        return list(session.rescale(cores))


def run(checkpoint: str, text: str, **options: Any) -> dict[str, Any]:
    start(checkpoint, text, **options)
    return drain(checkpoint)


def tasks() -> dict[str, int]:
    """Return how many tasks of the running stages have finished, and how many run."""
    tracker = _spark().sparkContext.statusTracker()
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    return {
        "running": sum(stage.numActiveTasks for stage in stages),
        "finished": sum(stage.numCompletedTasks for stage in stages),
    }


def executors() -> list[str]:
    """Return the addresses of the executors that are registered."""
    context = _spark().sparkContext
    infos = context._jsc.sc().statusTracker().getExecutorInfos()
    addresses = [info.host() for info in infos]
    addresses.remove(context.getConf().get("spark.driver.host"))  # the driver is listed, too
    return sorted(addresses)


def setting(name: str) -> str | None:
    return _spark().conf.get(name, None)


def batch(checkpoint: str) -> int:
    """Return the number of the micro-batch that was delivered last, or -1."""
    return _runs[checkpoint].session.statistics().batch


def read(checkpoint: str) -> dict[str, int]:
    """Return how many tuples of each stream have been read."""
    return {name: counts.tuples for name, counts in _runs[checkpoint].session.statistics().streams.items()}


def took(checkpoint: str) -> list[float]:
    """Return the milliseconds that each micro-batch took, from the start of its tasks on."""
    return list(_runs[checkpoint].took)


def placed(checkpoint: str) -> list[dict[str, Any]]:
    """Return the buckets, where they ran last, and how large their state is."""
    (listing,) = _runs[checkpoint].session.execute("SHOW BUCKETS")
    assert isinstance(listing, Listing)
    return [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]


def running() -> list[str]:
    """Return the checkpoints that are in use."""
    return list(_runs)


JOBS = {function.__name__: function for function in (start, execute, drain, stop, rescale, run, placed)}
LOOKS = {function.__name__: function for function in (tasks, executors, setting, batch, read, took, running)}


def main() -> None:
    master, conf = sys.argv[1], json.loads(sys.argv[2])
    session_for(launch_of(master=master, conf={"spark.ui.enabled": False, **conf}))
    requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    _say(started=True)
    while (request := requests.get()) is not None:
        _answer(request)


def _spark() -> SparkSession:
    return SparkSession.builder.getOrCreate()


def _read(requests: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["call"] in LOOKS:
            _answer(request)
        else:
            requests.put(request)
    requests.put(None)


def _answer(request: dict[str, Any]) -> None:
    try:
        _say(id=request["id"], value=_function(request["call"])(**request["arguments"]))
    except Exception:
        _say(id=request["id"], error=traceback.format_exc())


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.rpartition(":")
    return getattr(importlib.import_module(module), function) if module else (JOBS | LOOKS)[name]


def _say(**answer: Any) -> None:
    sys.__stdout__.write(json.dumps(answer) + "\n")
    sys.__stdout__.flush()


if __name__ == "__main__":
    main()
