"""Faults of a real deployment on Spark under load: kills, signals, full disks; no result may be lost or repeated.

A process writes three streams of files, and `headrace run` turns them into the files of 17 sinks. Where a broker of
Kafka can be had (tests/kafka/setup), it also reads a topic and has four more sinks, three of them topics. Faults come
at random moments; what has ended is started again. At the end the sinks are compared with the answers of DuckDB over
the same input, as multisets. `python -m benches.chaos --minutes 60 --seed 7` repeats a choice of faults for an hour.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.parts import load, sinks
from benches.parts.broker import Broker, missing
from benches.parts.comparison import Difference
from benches.parts.faults import ENDING, STARTING, SURVIVED, Harm, kill_while_starting, possible, survivable
from benches.parts.supervisor import PATIENCE, Ended, Stuck, Supervisor

#: Seconds between two files of a stream.
INTERVAL = 0.4
#: How many faults that it survives a process meets; a start takes long, so they are many.
SURVIVED_FAULTS = 4, 24
#: How often `--once` is killed before it may end.
KILLED_DRAINS = 3
#: Seconds for which a drain may take, with everything that waits.
DRAIN_SECONDS = 600.0


@dataclass(slots=True)
class Record:
    """What happened in a run."""

    faults: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    recoveries: list[float] = field(default_factory=list)  # seconds from a start to the first micro-batch
    stuck: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)  # output that is not for people
    harm: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)  # ends by faults that should be survived
    orphans: int = 0
    differences: dict[str, Difference] = field(default_factory=dict)
    calls: Difference = field(default_factory=lambda: Difference(0, 0, 0, 0))

    @property
    def count(self) -> int:
        return self.faults.total()

    @property
    def lost(self) -> int:
        return sum(difference.lost for difference in (*self.differences.values(), self.calls))

    @property
    def repeated(self) -> int:
        """Return rows that are there too often or should not be there, and calls with two keys."""
        return sum(difference.repeated + difference.wrong for difference in (*self.differences.values(), self.calls))

    @property
    def troubles(self) -> str:
        """Return what went wrong so far."""
        texts = [*self.stuck, *self.raw, *self.unexpected, *self.harm]
        return "nothing went wrong" if not texts else f"{len(texts)} troubles, the last: {texts[-1]}"

    def note_end(self, what: str, ended: Ended) -> None:
        """Remember output that is not for people."""
        say(f"{what}: code {ended.code}, {(ended.output.strip().splitlines() or ['no output'])[-1][:200]}")
        if not ended.is_clean:
            self.raw.append(f"after {what}, code {ended.code}: {ended.output[-2000:]}")


def main(
    quick: bool, minutes: float | None = None, seed: int | None = None, patience: float = PATIENCE
) -> dict[str, Any]:
    """Run for 3 (quick), 15 or `minutes` minutes, and report what became of the results.

    A deployment that commits nothing for `patience` seconds is stuck.
    """
    if minutes is None:
        minutes = 3.0 if quick else 15.0
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    say(f"seed {seed}")
    if (reason := missing()) is not None:
        say(f"without Kafka: {reason}")
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-", ignore_cleanup_errors=True) as folder:
        began = time.monotonic()
        broker = Broker(Path(folder) / "broker") if reason is None else None
        record = run(
            Path(folder),
            seed,
            is_over=lambda record: time.monotonic() - began > minutes * 60,
            broker=broker,
            patience=patience,
        )
        return report(record, seed, time.monotonic() - began)


def run(
    folder: Path,
    seed: int,
    *,
    is_over: Callable[[Record], bool],
    drains: int = KILLED_DRAINS,
    broker: Broker | None = None,
    patience: float = PATIENCE,
) -> Record:
    """Run a deployment with faults until `is_over` says so, drain it, and compare its sinks."""
    chance, record = random.Random(seed), Record()
    supervisor = Supervisor(folder, broker, patience)
    feeder: subprocess.Popen[bytes] | None = None
    try:
        if broker is not None:
            broker.start()
            sinks.make_topics(broker)
        kinds = possible(supervisor)
        feeder = load.feed(supervisor.data, seed, INTERVAL, broker=None if broker is None else broker.address)
        deck: list[str] = []  # so that every kind comes up
        while not is_over(record):
            if not deck:
                deck = chance.sample(kinds, len(kinds))
            _live(supervisor, chance, record, deck.pop(), is_over)
            say(f"{record.count} faults, {record.starts} starts, micro-batch {supervisor.newest()}, {record.troubles}")
        load.stop(supervisor.data, feeder)
        _drain(supervisor, chance, record, drains)
        record.differences = sinks.differences(supervisor.data, supervisor.out, seed, broker)
        if any(not difference.is_none for difference in record.differences.values()):
            kept = tempfile.mkdtemp(prefix="headrace-kept-")  # for whoever looks for the reason
            shutil.copytree(folder, kept, dirs_exist_ok=True, symlinks=True, ignore_dangling_symlinks=True)
            say(f"everything is kept in {kept}")
    finally:
        if feeder is not None:
            feeder.kill()
        supervisor.close()
        if broker is not None:
            broker.close()
    record.calls = sinks.call_difference(supervisor.data, folder / sinks.NOTES, seed)
    return record


def _live(
    supervisor: Supervisor, chance: random.Random, record: Record, last: str, is_over: Callable[[Record], bool]
) -> None:
    """Start the process, let it meet some faults that it survives, and end it."""
    supervisor.start()
    record.starts += 1
    what, undo = "the start", _nothing
    try:
        if chance.random() < 0.2:
            record.faults[STARTING] += 1
            record.note_end(STARTING, kill_while_starting(supervisor, chance))
            return
        if not supervisor.wait_for_commit(supervisor.committed):
            raise Harm(f"a start ended without a fault: {supervisor.end().output[-2000:]}")
        record.recoveries.append(time.monotonic() - supervisor.began)
        for _ in range(chance.randint(*SURVIVED_FAULTS)):
            time.sleep(chance.uniform(0.0, 1.0))
            if is_over(record):
                break
            what = chance.choices(*zip(*survivable(supervisor).items(), strict=True))[0]
            record.faults[what] += 1
            before = supervisor.newest()
            SURVIVED[what](supervisor, chance)
            if chance.random() < 0.5 and not supervisor.wait_for_commit(before):
                ended = supervisor.end()
                record.unexpected.append(f"{what}, code {ended.code}: {ended.output[-1000:]}")
                record.note_end(what, ended)
                return
        time.sleep(chance.uniform(0.0, 1.0))
        what = last
        record.faults[what] += 1
        undo = ENDING[what](supervisor, chance)
        record.note_end(what, supervisor.end())
    except Stuck as stuck:
        record.stuck.append(f"after {what}: {stuck}; {_state(supervisor)}")
        supervisor.kill_all()
    except Harm as harm:
        record.harm.append(str(harm))
    finally:
        if supervisor.command is not None:
            supervisor.kill_all()
            record.note_end(what, supervisor.end())
        undo()


def _drain(supervisor: Supervisor, chance: random.Random, record: Record, kills: int) -> None:
    """Run `--once` until it has ended, killed a few times on the way; once more it must change nothing."""
    for _ in range(kills):
        supervisor.start(once=True)
        record.starts += 1
        record.faults["--once killed"] += 1
        try:
            supervisor.wait_for_commit(supervisor.committed)
            time.sleep(chance.uniform(0.0, 1.0))
        except Stuck as stuck:
            record.stuck.append(f"in --once: {stuck}; {_state(supervisor)}")
        supervisor.kill_all()
        record.note_end("--once killed", supervisor.end())
    for attempt in ("--once", "--once repeated"):
        supervisor.start(once=True)
        record.starts += 1
        try:
            ended = supervisor.end(DRAIN_SECONDS)
        except Stuck as stuck:
            record.stuck.append(f"in {attempt}: {stuck}; {_state(supervisor)}")
            supervisor.kill_all()
            supervisor.end()
            return
        record.note_end(attempt, ended)
        if ended.code:
            record.harm.append(f"{attempt} ended with code {ended.code}: {ended.output[-2000:]}")
    record.orphans = len(supervisor.orphans())


def _state(supervisor: Supervisor) -> str:
    """Return what an operator would look at: the processes, the last output and the end of Spark's log."""
    output = supervisor.command.output[-500:] if supervisor.command is not None else ""
    log = supervisor.checkpoint / "spark.log"
    text = log.read_text(errors="replace")[-1500:] if log.exists() else ""
    return f"micro-batch {supervisor.newest()}, processes {supervisor.members()}, output {output!r}, log {text!r}"


def report(record: Record, seed: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a run."""
    rows = [
        _row("faults", record.count, None),
        _row("lost results", record.lost, 0),
        _row("repeated or wrong results", record.repeated, 0),
        _row("stuck", len(record.stuck), 0),
        _row("raw tracebacks", len(record.raw), 0),
        _row("ended by what should be survived", len(record.unexpected), 0),
        _row("other harm, processes left over", len(record.harm) + record.orphans, 0),
    ]
    if record.recoveries:
        rows.append(
            {"case": "start to first micro-batch, median", "ours": statistics.median(record.recoveries), "unit": "s"}
        )
    expected = sum(difference.expected for difference in record.differences.values())
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(record.faults.items()))
    bad = {name: difference for name, difference in record.differences.items() if not difference.is_none}
    return {
        "bench": "chaos",
        "title": f"{record.count} faults in {seconds / 60:.0f} minutes, {os.cpu_count()} cores",
        "rows": rows,
        "faults": dict(record.faults),
        "recoveries": record.recoveries,
        "seed": seed,
        "notes": [
            f"seed {seed}; {record.starts} starts; {expected:,} results in {len(record.differences)} sinks compared, "
            f"and {record.calls.expected:,} calls",
            kinds,
            *(f"{name}: {difference}" for name, difference in bad.items()),
            *([] if record.calls.is_none else [f"calls: {record.calls}"]),
            *(f"stuck {text}" for text in record.stuck),
            *(f"raw output {text}" for text in record.raw),
            *(f"ended unexpectedly by {text}" for text in record.unexpected),
            *record.harm,
        ],
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _row(case: str, count: int, target: int | None) -> dict[str, Any]:
    verdict = "" if target is None else "met" if count <= target else "missed"
    return {"case": case, "ours": count, "unit": "", "target": target, "verdict": verdict}


def _nothing() -> None:
    pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=None, help="the choice of faults and the input")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds without a commit that are too many")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # with everything that it has started
    for note in (figures := main(False, options.minutes, options.seed, options.patience))["notes"]:
        print(note)
    for row in figures["rows"]:
        print(f"{row['case']:40} {row['ours']:>10} {row.get('verdict', '')}")
