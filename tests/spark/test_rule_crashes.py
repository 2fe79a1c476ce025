"""Killed while rules detect and act: each detection is in the files once, and a repeated call has the same key."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.spark.rule_notes import is_high

from headrace.driver.rules.proposals import Proposals
from headrace.session import Session
from headrace.session.compile import plan_query
from headrace.testing.oracle.oracle import Row, answer
from headrace.testing.oracle.values import plain

SCRIPT = """
CREATE STREAM ups (at TIMESTAMP, host INT, n INT) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/ups', format 'parquet');
CREATE STREAM downs (at TIMESTAMP, host INT, n INT) TIMESTAMP BY at FROM FILES (path '{data}/downs', format 'parquet');
CREATE EVENT outage AS downs SEQUENCE ups WITHIN 20 SECONDS WHERE downs.host = ups.host;
CREATE EVENT alarm (host INT, n INT);
CREATE RULE notify ON outage CONTEXT CHRONICLE WHEN downs.n < ups.n
  DO INSERT INTO FILES (path '{out}/notify', format 'parquet'), CALL PYTHON 'rule_notes:note',
    RAISE EVENT alarm(host, downs.n);
CREATE QUERY alarms AS SELECT host, n FROM alarm INTO FILES (path '{out}/alarms', format 'parquet');
CREATE QUERY falls AS {falls} INTO FILES (path '{out}/falls', format 'parquet');
CREATE QUERY asked ON DEMAND AS {asked} INTO FILES (path '{out}/asked', format 'parquet');
CREATE EVENT called (n INT);
CREATE QUERY by_hand AS SELECT n FROM called INTO FILES (path '{out}/by_hand', format 'parquet');
CREATE STREAM ticks (n BIGINT) FROM GENERATOR (rate 50, process 'constant', rows 400, col.n 'sequence');
CREATE QUERY ticked AS SELECT n FROM ticks INTO FILES (path '{out}/ticked', format 'parquet');
CREATE FUNCTION is_high(INT) RETURNS BOOLEAN FROM PYTHON 'rule_notes:is_high';
CREATE RULE propose ON downs CONFIRM WITHIN '1 day' WHEN is_high(downs.n)
  DO CALL PYTHON 'rule_notes:confirmed' (downs.n);
"""
#: Queries that the oracle answers as well.
SELECTS = {
    "falls": "SELECT * FROM downs MATCH_RECOGNIZE (PARTITION BY host ORDER BY at MEASURES A.n AS first, "
    "COUNT(B.n) AS steps, LAST(B.n) AS bottom, C.n AS last ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
    "PATTERN (A B+ C) WITHIN INTERVAL '5' SECOND DEFINE B AS B.n < PREV(B.n), C AS C.n > LAST(B.n))",
    "asked": "SELECT host, count(*) AS c, max(n) AS most FROM ups [RANGE 10 SECONDS] GROUP BY host",
}
#: The same detections without a rule.
REFERENCE = (
    "CREATE EVENT reference AS downs SEQUENCE ups WITHIN 20 SECONDS WHERE downs.host = ups.host CONTEXT CHRONICLE"
)


def write_data(directory: Path) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(11)
    made = {}
    for name in ("ups", "downs"):
        ts = np.sort(rng.integers(0, 120_000_000, 900)) - (rng.integers(0, 450_000, 900) if name == "ups" else 0)
        frame = pl.DataFrame(
            {
                "at": pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us")),
                "host": pl.Series(rng.integers(0, 9, 900), dtype=pl.Int32),
                "n": pl.Series(rng.integers(0, 1000, 900), dtype=pl.Int32),
            }
        )
        (directory / name).mkdir(parents=True)
        for i in range(30):
            frame[i * 30 : (i + 1) * 30].write_parquet(directory / name / f"{i:03d}.parquet")
        made[name] = frame
    return made


def expected(script: str, frames: dict[str, pl.DataFrame]) -> Counter[tuple[Any, ...]]:
    rows = answers(script, frames, REFERENCE)
    return Counter(tuple(row.values.values()) for row in rows if row.values["n"] < row.values["n_1"])


def answers(script: str, frames: dict[str, pl.DataFrame], reference: str) -> list[Row]:
    with Session(host="local") as session:
        session.execute(";".join(script.split(";")[:3]) + ";" + reference)
        plan = plan_query(session.catalog.find("reference"), session.catalog)  # type: ignore[arg-type]
    streams = {name: [Row(row["at"], row) for row in plain(frame.to_dicts())] for name, frame in frames.items()}
    return answer(plan, streams)


def start(directory: Path) -> subprocess.Popen[bytes]:
    child = Path(__file__).with_name("crash_child.py")
    command = [sys.executable, str(child), str(directory / "checkpoint"), str(directory / "script.sql"), "60",
               f"person={directory / 'said'}"]  # fmt: skip
    path = os.pathsep.join([str(child.parent), os.environ.get("PYTHONPATH", "")])  # workers find the condition there
    environment = {**os.environ, "RULE_NOTES": str(directory / "notes"), "PYTHONPATH": path}
    with open(directory / "child.log", "ab") as log:
        return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, env=environment)


def newest(directory: Path) -> int:
    commits = directory / "checkpoint" / "spark" / "commits"
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1) if commits.exists() else -1


def test_killing_the_driver_while_rules_act_repeats_no_detection_and_changes_no_key(tmp_path: Path) -> None:
    frames = write_data(tmp_path / "data")
    script = SCRIPT.format(data=tmp_path / "data", out=tmp_path / "out", **SELECTS)
    (tmp_path / "script.sql").write_text(script)
    chance = random.Random(5)
    reached = []
    for _ in range(2):
        process = start(tmp_path)
        before, deadline = newest(tmp_path), time.monotonic() + 120
        wanted = before + chance.randint(2, 6)
        while process.poll() is None and time.monotonic() < deadline and newest(tmp_path) < wanted:
            time.sleep(0.02)
        time.sleep(chance.random() * 0.3)  # somewhere within a micro-batch
        reached.append(newest(tmp_path))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert max(reached) >= 0, "killed only before anything was detected: the machine is too busy for this test"
    assert start(tmp_path).wait(250) == 0, (tmp_path / "child.log").read_text()[-3000:]

    detections = expected(script, frames)
    assert len(detections) > 100
    written = pl.read_parquet(tmp_path / "out" / "notify")
    assert Counter(tuple(plain([row])[0].values()) for row in written.to_dicts()) == detections
    alarms = pl.read_parquet(tmp_path / "out" / "alarms")
    assert sorted(alarms.rows()) == sorted(written.select("host", "n").rows())

    noted = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    keys: dict[str, set[str]] = {}
    for key, found in noted:
        keys.setdefault(json.dumps(found), set()).add(key)
    stated = {json.dumps(row, default=str) for row in written.to_dicts()}
    assert keys.keys() == stated  # each detection was acted on
    assert all(len(found) == 1 for found in keys.values())  # and whoever acts again says the same
    assert len(set.union(*keys.values())) == len(stated)

    for name, select in SELECTS.items():
        rows = answers(script, frames, f"CREATE VIEW reference AS {select}")
        assert rows
        stored = pl.read_parquet(tmp_path / "out" / name).rows()
        assert Counter(stored) == Counter(tuple(row.values.values()) for row in rows), name
    assert sorted(pl.read_parquet(tmp_path / "out" / "ticked")["n"]) == list(range(400)), "paused, at another rate"
    said = [line.split() for line in (tmp_path / "said").read_text().splitlines()]
    raised = Counter(pl.read_parquet(tmp_path / "out" / "by_hand")["n"])
    known = {int(number) for what, number in said if what == "raised"}
    tried = {int(number) for what, number in said if what == "raise"}
    assert known <= raised.keys() <= tried
    assert set(raised.values()) == {1}, "once, although the process was killed"
    proposed = [n for n in frames["downs"]["n"].to_list() if is_high(n)]
    acted = [json.loads(line) for line in (tmp_path / "notes.confirmed").read_text().splitlines()]
    waiting = [proposal.firing.detections()[0]["n"] for proposal in Proposals(tmp_path / "checkpoint").waiting()]
    done = dict(acted)
    assert sorted([*done.values(), *waiting]) == sorted(proposed), "each was confirmed, or still waits, with one key"
    assert done, "some were confirmed"
