"""How long after a window's end does its count arrive on Spark if one of two united streams is almost silent?

This tests the claims about bounds on demand in real time, where a step of the engine is a micro-batch and each
micro-batch carries the bounds of silent streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim
from headrace.experiments.timestamps.silent_stream import Case, Watched, late, punctual, watch

#: What is run, and for how many seconds each.
RUNS: Mapping[Scale, tuple[tuple[Case, ...], float]] = {
    "quick": ((punctual(10.0),), 36.0),
    "normal": ((punctual(20.0), late(5.0, 3)), 65.0),
    "full": ((punctual(20.0), late(5.0, 3)), 180.0),
}


def run(trial: Trial) -> Outcome:
    """Start Spark and observe each case."""
    cases, seconds = RUNS[trial.scale]
    runs = []
    for done, case in enumerate(cases):
        trial.progress(f"{case.name}, {seconds:g} s in real time", done, len(cases))
        runs.append(watch(case, seconds))
    return report(runs)


def report(runs: Sequence[Watched]) -> Outcome:
    """Judge the observations."""
    findings = tuple(finding for watched in runs for finding in _findings(watched))
    notes = (
        "the paper's engine decides per tuple, Spark per micro-batch: two micro-batches are the minimum, "
        "so the paper's orders of magnitude cannot be reached",
        *(
            f"{watched.case.name}: our micro-batch takes {watched.batch:.2f} s; input for {watched.seconds:.0f} s"
            for watched in runs
        ),
        "plain Spark: the same files, withWatermark on both, union, count by window, append mode",
    )
    return Outcome(findings, tuple(_panel(watched) for watched in runs), notes)


def _findings(watched: Watched) -> Iterator[Finding]:
    name, limit = watched.case.name, watched.case.age + 2 * watched.batch
    ours, spark = watched.median(watched.ours), watched.median(watched.spark)
    # half the time between slow tuples is what a union that waits for them loses, by the median
    yield Finding(
        f"{name}: delay, plain Spark",
        spark,
        claim(spark >= watched.case.every / 4),
        "waits for the silent input",
        None,
        "s",
    )
    yield Finding(f"{name}: delay, ours", ours, claim(ours <= limit), f"does not wait (limit {limit:.2f} s)", None, "s")
    yield Finding(
        f"{name}: plain Spark to ours",
        spark / ours,
        "consistent" if spark > ours else "not confirmed",
        "several orders",
        None,
        "x",
    )
    counted, due = watched.counted(watched.ours)
    yield Finding(f"{name}: tuples counted", f"{counted} of {due}", claim(counted == due), "none is lost")


def _panel(watched: Watched) -> Panel:
    curves = (
        Series("ours", tuple(watched.delays(watched.ours).items())),
        Series("plain Spark", tuple(watched.delays(watched.spark).items())),
        Series("age and two micro-batches", ((0, watched.case.age + 2 * watched.batch),), "level"),
    )
    return Panel(
        watched.case.name.capitalize(),
        "end of the window, s since the start",
        "delay of its count, s",
        curves,
        log_y=True,
    )
