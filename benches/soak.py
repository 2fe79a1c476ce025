"""Growth of a deployment on Spark over a long time: memory, descriptors, threads, files, duration of micro-batches.

Twelve queries run over a steady load, and two of them are started and stopped all the time. Everything that could grow
is measured every few seconds. After a warm-up, a robust slope says whether it does. `headrace bench soak --minutes 240`
runs for hours.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, TypeAlias

from benches.parts import load, soaking
from benches.parts.soaking import Samples
from benches.parts.trend import Step, Trend, step, trend

from headrace.experiments.experiment import Panel, Series

#: Seconds between two files of a stream.
INTERVAL = 0.5
#: How long files stay, in seconds: in a long run longer, since the machine may be busy for a while.
KEPT, KEPT_LONG, LONG = 120, 600, 1800
#: Seconds between two samples.
EVERY = 2.0
#: The share of a run that is warm-up, and the most that it takes, in seconds.
WARM_UP, LONGEST_WARM_UP = 0.35, 1800.0
#: A leak that must not stay hidden, in megabytes an hour.
LEAK = 5.0
#: Values with the seconds at which they were measured.
Points: TypeAlias = list[tuple[float, float]]
#: What is drawn: a title, and the quantities of the panel.
_PANELS = (
    ("Memory (MB)", ("memory of driver (MB)", "memory of JVM (MB)", "memory of workers (MB)")),
    (
        "Parts of the JVM (MB)",
        (
            "heap of JVM after a collection (MB)",
            "compiled code of JVM (MB)",
            "classes of JVM (MB)",
            "C heap of JVM (MB)",
            "memory of state stores (MB)",
            "stacks of JVM (MB)",
            "memory of JVM beside heap, code and classes (MB)",
        ),
    ),
    ("Open descriptors", ("descriptors of driver", "descriptors of JVM", "descriptors of workers")),
    ("Threads", ("threads of driver", "threads of JVM", "threads of workers")),
    ("Files", ("files in the checkpoint", "files of the command log", "temporary files")),
    (
        "Size of the checkpoint (MB)",
        ("checkpoint without lists of files (MB)", "temporary files without logs of stores (MB)"),
    ),
    ("Micro-batch (ms)", ("duration of a micro-batch (ms)",)),
)


def main(quick: bool, minutes: float | None = None) -> dict[str, Any]:
    """Run for 3 (quick), 10 or `minutes` minutes, and report the slope of each quantity."""
    if minutes is None:
        minutes = 3.0 if quick else 10.0
    with tempfile.TemporaryDirectory(prefix="headrace-soak-", ignore_cleanup_errors=True) as folder:
        samples = measure(Path(folder), minutes * 60)
    return report(samples, minutes * 60)


def measure(folder: Path, seconds: float) -> Samples:
    """Run the deployment for some seconds from its first micro-batch on, and sample it."""
    load.prepare(folder / "data")
    samples = Samples()
    environment = {
        **os.environ,
        **soaking.ALLOCATOR,
        "HEADRACE_DRIVER_MEMORY": soaking.HEAP,
        "SPARK_SUBMIT_OPTS": soaking.JAVA_OPTIONS,
    }
    load.write(folder / "data", 0, 1)
    process = soaking.start(folder, environment)
    feeder: subprocess.Popen[bytes] | None = None
    try:
        while not (folder / soaking.BATCHES).exists() or not (folder / soaking.BATCHES).stat().st_size:
            _check(process.poll(), folder)
            time.sleep(0.1)
        kept = KEPT_LONG if seconds >= LONG else KEPT
        feeder = load.feed(folder / "data", 1, INTERVAL, keep=round(kept / INTERVAL))  # none goes before it can be read
        began, clock = time.monotonic(), time.time()
        while (passed := time.monotonic() - began) < seconds:
            _check(process.poll(), folder)
            soaking.sample(folder, process.pid, passed, samples)
            time.sleep(EVERY)
        soaking.add_noted(folder, clock, samples)
        (folder / soaking.STOP).touch()
        process.wait(120)
    finally:
        process.kill()
        if feeder is not None:
            load.stop(folder / "data", feeder)
    return samples


def report(samples: Samples, seconds: float) -> dict[str, Any]:
    """Return the slope of each quantity after the warm-up, and whether it is zero within the error."""
    warm = min(seconds * WARM_UP, LONGEST_WARM_UP)
    rows = []
    middle = warm + (seconds - warm) / 2
    for name, points in samples.after(warm).items():
        slope, largest = _slope(points), _step(points)
        halves = [_slope(half) for half in _halves(points, middle)]
        rows.append(
            {
                "case": name,
                "ours": slope.level,
                "unit": _range(slope)
                + "".join(f", {half.slope:+.3g}" for half in halves)
                + (f", step {largest.size:+.3g}, beside it {_range(largest.beside)}" if largest else ""),
                "slope": slope.slope,
                "low": slope.low,
                "high": slope.high,
                "halves": [half.slope for half in halves],
                "step": largest.size if largest else None,
                "beside the step": [largest.beside.low, largest.beside.high] if largest else None,
                "verdict": verdict(name, slope, largest),
            }
        )
    return {
        "bench": "soak",
        "title": f"Growth in {seconds / 60:.0f} minutes on {os.cpu_count()} cores, after {warm:.0f} s of warm-up",
        "rows": rows,
        "samples": samples.values,
        "panels": [_panel(title, names, samples, warm) for title, names in _PANELS],
        "notes": [
            "ours: the median; then growth per hour with its 95 % interval, and that of the first and the second half: "
            "what warms up slowly grows less in the second. Then the largest step, and the growth on both sides of it. "
            f"'uncertain': the interval contains zero and a leak of {LEAK:.0f} MB an hour. The heap of the JVM is "
            f"{soaking.HEAP}, {1 / INTERVAL:.0f} files a second and stream, {len(soaking.FLAPPING)} queries change "
            f"every {soaking.FLAP_SECONDS:.0f} s."
        ],
    }


def verdict(name: str, slope: Trend, largest: Step | None) -> str:
    """Return whether a quantity grows without a bound.

    It does not if its slope is zero within the error, or if it is one clear step and zero beside it. For megabytes the
    error must be so small that a leak could not hide in it.
    """
    if slope.verdict == "grows":
        return "one step" if largest is not None and largest.is_all else "grows"
    return "uncertain" if name.endswith("(MB)") and slope.high > LEAK else "met"


def _range(slope: Trend) -> str:
    return f"{slope.slope:+.3g}/h [{slope.low:+.3g}, {slope.high:+.3g}]"


def _step(points: Points) -> Step | None:
    return step([at for at, _ in points], [value for _, value in points])


def _slope(points: Points) -> Trend:
    return trend([at for at, _ in points], [value for _, value in points])


def _halves(points: Points, middle: float) -> list[Points]:
    """Return what was measured before and after the middle of a run; nothing if one of them has no trend."""
    halves = [[point for point in points if (point[0] < middle) == is_first] for is_first in (True, False)]
    return halves if all(len({at for at, _ in half}) > 1 for half in halves) else []


def _panel(title: str, names: tuple[str, ...], samples: Samples, warm: float) -> Panel:
    lines = tuple(
        Series(name, tuple((at / 60, value) for at, value in samples.values[name]))
        for name in names
        if name in samples.values
    )
    top = max((value for line in lines for _, value in line.points), default=1.0)
    return Panel(title, "minutes", "", (*lines, Series("warm-up ends", ((warm / 60, 0.0), (warm / 60, top)), "dashed")))


def _check(code: int | None, folder: Path) -> None:
    if code is not None:
        raise RuntimeError(f"the deployment ended with code {code}: {(folder / 'output.txt').read_text()[-2000:]}")
