"""Runs queries in a driver that somebody else placed, and measures what passes through it.

The functions run in the process of the driver, and answer with what JSON can hold.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.delivery import Delivery
from headrace.engine.statistics import SentStatistics
from headrace.session import Session


def measure(checkpoint: str, text: str, *, limit: int, buckets: int | None = None) -> dict[str, Any]:
    """Run a script to its end; return the time of each micro-batch, what Spark's stages did, and what tasks sent.

    `pages` are bytes of results and exchanged tuples that passed through the driver, `notes` those of reports.
    """
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    before = max((stage.stageId() for stage in _stages(spark)), default=-1)
    began = time.perf_counter()
    sent: list[SentStatistics] = []
    with Session(checkpoint, limit=limit, buckets=buckets) as session:
        _note_sent(session.deployment.delivery, sent)
        session.execute(text)
        query = session.deployment.query  # type: ignore[attr-defined]
        session.drain()
    seconds = time.perf_counter() - began
    stages = [stage for stage in _stages(spark) if stage.stageId() > before and stage.completionTime().isDefined()]
    busy = [
        (stage.submissionTime().get().getTime(), stage.completionTime().get().getTime(), stage.resultSize())
        for stage in stages
    ]
    batches = [
        (_milliseconds(progress.timestamp), progress.durationMs["triggerExecution"])
        for progress in query.recentProgress
        if progress.durationMs.get("addBatch")
    ]
    return {
        "seconds": seconds,
        "batch_ms": [duration for _, duration in batches],
        "driver_ms": [alone(begin, begin + duration, busy) for begin, duration in batches],
        "result_bytes": sum(size for _, _, size in busy),
        "pages": sum(each.pages for each in sent),
        "notes": sum(each.notes for each in sent),
        "tasks": sum(each.tasks for each in sent),
    }


def _note_sent(delivery: Delivery, sent: list[SentStatistics]) -> None:
    """Note after each delivery what the tasks of the micro-batch sent."""
    deliver = delivery.deliver

    def noted(*arguments: Any, **options: Any) -> bool:
        is_ended = deliver(*arguments, **options)
        sent.append(delivery.statistics.sent)
        return is_ended

    delivery.deliver = noted  # type: ignore[method-assign]


def alone(begin: float, end: float, stages: Sequence[tuple[float, float, int]]) -> float:
    """Return the milliseconds between two moments in which no stage ran."""
    covered, reached = 0.0, begin
    for first, last, _ in sorted(stages):
        first, last = max(first, reached), min(last, end)
        if first < last:
            covered, reached = covered + last - first, last
    return end - begin - covered


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return how much the second number grows with the first, by least squares."""
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def _stages(spark: SparkSession) -> list[Any]:
    """Return what Spark remembers of stages."""
    context = spark.sparkContext
    jvm, gateway = context._jvm, context._gateway
    nothing = jvm.java.util.ArrayList()
    listed = context._jsc.sc().statusStore().stageList(nothing, False, False, gateway.new_array(jvm.double, 0), nothing)
    return [listed.apply(index) for index in range(listed.length())]


def _milliseconds(timestamp: str) -> float:
    """Return a time of Spark's progress, such as 2026-01-01T00:00:00.000Z, in milliseconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp() * 1000
