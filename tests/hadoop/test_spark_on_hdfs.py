"""A deployment on Spark whose checkpoint, sources and sinks are in HDFS, killed and continued: exact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from tests.hadoop.server import Hadoop
from tests.spark import crash_case

from headrace.hosts.checkup import check_up
from headrace.storage import files
from headrace.storage.objects import ObjectStorage

ROOT = Path(__file__).parents[2]


def environment(hadoop: Hadoop, tmp_path: Path) -> dict[str, str]:
    """Return the variables of a process that finds HDFS and writes nowhere else than there and into its own folder."""
    for name in ("tmp", "cwd"):
        (tmp_path / name).mkdir()
    return {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "HADOOP_CONF_DIR": str(hadoop.conf),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))),
        "SPARK_SUBMIT_OPTS": f"-XX:TieredStopAtLevel=1 {hadoop.options}",
    }


def upload(source: Path, destination: Path, parts: range = range(100)) -> None:
    """Copy a folder to HDFS: of the files with numbers these, and all others."""
    for path in sorted(source.rglob("*.*")):
        if not path.stem.isdigit() or int(path.stem) in parts:
            files.replace(destination / path.relative_to(source), path.read_bytes())


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def test_killed_twice_and_continued_it_delivers_what_the_oracle_says(
    hadoop: Hadoop, place: Path, tmp_path: Path
) -> None:
    frames = crash_case.write_data(tmp_path / "data", 5, parts=8)
    upload(tmp_path / "data", place / "data")
    text = crash_case.script_with(crash_case.FEW).format(data=place / "data", out=place / "out")
    answers = crash_case.expected(text, frames)
    script, state = tmp_path / "script.sql", place / "state"
    script.write_text(text)
    environ, chance = environment(hadoop, tmp_path), random.Random(31)
    command = [sys.executable, str(ROOT / "tests/spark/crash_child.py"), str(state), str(script), "300"]
    for kills_to_come in (2, 1, 0):
        with (tmp_path / "output.txt").open("ab") as output:
            child = subprocess.Popen(
                command, env=environ, cwd=tmp_path / "cwd", stdout=output, stderr=output, start_new_session=True
            )
        if kills_to_come:
            crash_case.wait_for_batches(state, 2, is_over=partial(has_ended, child))
            time.sleep(chance.random() * 0.5)  # somewhere within a micro-batch
            assert child.poll() is None, (tmp_path / "output.txt").read_text()[-3000:]
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait(200)
    assert code == 0, (tmp_path / "output.txt").read_text()[-3000:]
    assert crash_case.written(place / "out", answers) == answers
    assert list((tmp_path / "cwd").iterdir()) == []
    checkup = check_up(state)
    assert checkup.problems == ()
    assert checkup.ended
    left = [str(one.path) for one in ObjectStorage().listing(place)]
    own = [name for name in left if not name.startswith(f"{state}/spark/")]  # Spark leaves what it was writing
    assert not [name for name in own if "_staging" in name or name.endswith(".tmp")]
