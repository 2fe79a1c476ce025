"""The parts of the idle bench that need neither Spark nor Flink."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.experiments.timestamps.silent_stream import Seen, Watched, late, until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def benches(monkeypatch):
    """Import a module of benches/ as `headrace bench` does."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name: importlib.import_module(f"benches.{name}")


def stat(pid: int, name: str, parent: int, own: int, ended: int = 0) -> str:
    return f"{pid} ({name}) S {parent} 1 1 0 -1 4194304 5000 0 0 0 {own - 3} 3 {ended} 0 20 0 40 0 100 0 0"


def test_times_follow_a_name_with_blanks_and_brackets(benches) -> None:
    found = benches("parts.processes").parse(stat(17, "odd) (name 1 2", 4, 25, 6))
    assert (found.pid, found.name, found.parent, found.own, found.ended) == (17, "odd) (name 1 2", 4, 25, 6)


def test_only_processes_of_this_run_count(benches) -> None:
    processes = benches("parts.processes")
    before = [
        stat(10, "python", 1, 100),
        stat(11, "java", 10, 200),
        stat(12, "python3", 11, 30),
        stat(90, "java", 1, 50),
    ]
    after = [
        stat(10, "python", 1, 101),
        stat(11, "java", 10, 240),
        stat(12, "python3", 11, 36),
        stat(13, "python3", 12, 4),
        stat(90, "java", 1, 950),
    ]
    ticks = processes.spent(10, map(processes.parse, before), map(processes.parse, after))
    assert ticks == {"driver": 1, "JVM": 40, "workers": 10}
    assert processes.shares(ticks, 10.0, 100) == {"driver": 0.001, "JVM": 0.04, "workers": 0.01}


def test_the_time_of_a_process_that_ended_counts_from_the_first_look_on(benches) -> None:
    processes = benches("parts.processes")
    before = [
        stat(10, "python", 1, 100),
        stat(11, "java", 10, 200),
        stat(12, "python3", 11, 30, 5),
        stat(14, "bash", 11, 7),
    ]
    waited = [stat(10, "python", 1, 100), stat(11, "java", 10, 200, 30 + 5 + 7 + 9)]
    ignored = [stat(10, "python", 1, 100), stat(11, "java", 10, 200)]
    assert processes.spent(10, map(processes.parse, before), map(processes.parse, waited))["JVM"] == 9
    assert processes.spent(10, map(processes.parse, before), map(processes.parse, ignored))["JVM"] == 0


def test_this_process_is_among_those_that_the_system_tells_of(benches) -> None:
    assert os.getpid() in [process.pid for process in benches("parts.processes").all_processes()]


def test_lines_of_flink_become_counts_with_the_time_that_they_name(benches) -> None:
    lines = [
        "WARNING: something that Flink says\n",
        '"a string"\n',
        json.dumps({"name": "flink", "running": True}),
        json.dumps({"name": "flink", "end": 1000.0, "count": 5, "at": 1011.5}),
        json.dumps({"name": "another", "end": 1000.0, "count": 7, "at": 1000.5}),
    ]
    seen, running = {"flink": Seen(), "flink, idle-timeout 1 s": Seen()}, set[str]()
    benches("parts.flink").take(lines, seen, running)
    assert running == {"flink"}
    assert seen["flink"] == Seen({1000.0: 5}, {1000.0: 11.5})
    assert seen["flink, idle-timeout 1 s"] == Seen()


def test_flink_is_used_where_it_is_and_a_wrong_path_is_told(benches, monkeypatch, tmp_path) -> None:
    flink = benches("parts.flink")
    monkeypatch.delenv("HEADRACE_FLINK_PYTHON", raising=False)
    monkeypatch.setattr(flink, "ROOT", tmp_path)
    assert flink.find_python() is None
    with pytest.raises(HostFault, match="benches/flink/setup"):
        flink.start(late(5.0, 3), tmp_path)
    monkeypatch.setenv("HEADRACE_FLINK_PYTHON", str(tmp_path / "python"))
    with pytest.raises(HostFault, match="does not exist"):
        flink.find_python()
    (tmp_path / "python").touch()
    assert flink.find_python() == tmp_path / "python"


def test_a_process_is_read_until_it_is_told_to_end(benches) -> None:
    flink = benches("parts.flink")
    running = "".join(json.dumps({"name": name, "running": True}) + "\\n" for name in flink.VARIANTS)
    peer = flink.Flink(
        [sys.executable, "-c", f"import sys; sys.stdout.write('{running}'); sys.stdout.flush(); sys.stdin.read()"]
    )
    try:
        until(peer.is_ready)
    finally:
        peer.end()


def test_a_process_that_ends_by_itself_is_told_with_its_last_words(benches) -> None:
    flink = benches("parts.flink")
    peer = flink.Flink([sys.executable, "-c", "raise SystemExit('no Java')"])
    try:
        with pytest.raises(HostFault, match="no Java"):
            until(peer.is_ready)
    finally:
        peer.end()


def test_a_faster_peer_that_loses_tuples_is_not_what_ours_is_compared_with(benches) -> None:
    ends = [1001.0 + second for second in range(40)]
    written = tuple(1000 + number * 0.2 for number in range(200))
    seen = {delay: Seen(dict.fromkeys(ends, 5), dict.fromkeys(ends, delay)) for delay in (3.5, 7.0, 1.0)}
    seen[1.0].counts[ends[20]] -= 1
    figures: dict = {"cases": {}, "rows": [], "notes": []}
    benches("idle")._add(Watched(late(5.0, 3), seen[3.5], seen[7.0], written, 0.3, {"hasty": seen[1.0]}), figures)
    (case,) = figures["cases"].values()
    assert case["ratio"] == 2.0
    assert case["systems"]["hasty"]["lost"] == 1
    assert case["systems"]["ours"] == {"median": 3.5, "p95": 3.5, "windows": 18, "missing": 0, "due": 195, "lost": 0}
    assert figures["rows"][0]["verdict"] == "met"
