"""A checkpoint continues with other numbers of partitions, also if a process died while it divided the state."""

import datetime as dt
import shutil
import socket

import pytest

from headrace.errors import HostFault
from headrace.hosts.spark.offset_log import read_logs, read_partitions
from headrace.session import Session
from headrace.testing.watching import until

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY counts AS SELECT item, count(*) AS n FROM bids [RANGE 1 HOUR] GROUP BY item INTO MEMORY;
"""


def test_state_is_divided_for_more_and_for_fewer_cores_and_results_stay_exact(spark, tmp_path):
    directory = tmp_path / "state"
    with pytest.raises(HostFault, match="has no state yet"), Session(directory) as session:
        session.rescale(4)

    def run(first):
        with Session(directory, buckets=8) as session:
            session.execute(SCRIPT)
            session.push(
                "bids", [{"at": START + dt.timedelta(seconds=i), "item": i % 50} for i in range(first, first + 500)]
            )
            until(lambda: "bids" in (streams := session.statistics().streams) and streams["bids"].tuples == 500)
            (listing,) = session.execute("SHOW BUCKETS")
            assert [row[1] for row in listing.rows] == [socket.gethostname()] * 8
            with pytest.raises(HostFault, match="a running session cannot be rescaled"):
                session.rescale(4)

    run(0)
    with Session(directory) as session:
        assert session.rescale(5) == (8, 2, 4)
    run(500)
    with Session(directory) as session:
        assert session.rescale(4) == (8, 4, 4), "nothing to do"
        assert session.rescale(1) == (8, 4, 1)
    # as if the process had died before the end: the micro-batch of the division is planned, and not committed
    logs = directory / "spark"
    last = read_logs(logs).committed
    for name in (str(last), f".{last}.crc"):
        (logs / "commits" / name).unlink(missing_ok=True)
    with Session(directory) as session:
        session.start()
        session.push("bids", [{"at": START + dt.timedelta(seconds=1000 + i), "item": i} for i in range(50)])
        session.drain(60)
        assert {row["item"]: row["n"] for row in session.results("counts")} == dict.fromkeys(range(50), 21)
    assert read_partitions(logs) == 2, "a start uses the cores that there are"


def test_a_division_that_dies_at_any_step_is_completed_by_the_next_start(spark, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    with Session(before, buckets=3) as session:
        session.execute(SCRIPT)
        session.push("bids", [{"at": START + dt.timedelta(seconds=i), "item": i % 50} for i in range(250)])
        until(lambda: "bids" in (streams := session.statistics().streams) and streams["bids"].tuples == 250)
        session.execute("ALTER SYSTEM SET buckets = 4")
        session.push("bids", [{"at": START + dt.timedelta(seconds=i), "item": i % 50} for i in range(250, 500)])
        until(lambda: "bids" in (streams := session.statistics().streams) and streams["bids"].tuples == 500)
    shutil.copytree(before, after)
    with Session(after) as session:
        assert session.rescale(4) == (4, 2, 4)
    written = written_later(before / "spark", after / "spark")
    assert written[0].match("offsets/*"), "the change is written down first"
    assert written[-1].match("commits/*")
    for number, steps in enumerate((0, 1, len(written) // 2, len(written) - 1, len(written))):
        killed = tmp_path / f"killed{number}"
        shutil.copytree(before, killed)
        for path in written[:steps]:
            (killed / "spark" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(after / "spark" / path, killed / "spark" / path)
        with Session(killed) as session:
            session.start()
            session.push("bids", [{"at": START + dt.timedelta(seconds=1000 + i), "item": i} for i in range(50)])
            session.drain(60)
            assert {row["item"]: row["n"] for row in session.results("counts")} == dict.fromkeys(range(50), 11)
        assert read_partitions(killed / "spark") == (4 if steps else 2)


def written_later(before, after):
    """Return the files that are in the second folder only or newer there, in the order in which they were written."""
    times = {path.relative_to(after): path.stat().st_mtime_ns for path in after.rglob("*") if path.is_file()}
    known = {path.relative_to(before): path.stat().st_mtime_ns for path in before.rglob("*") if path.is_file()}
    changed = [path for path, time in times.items() if known.get(path) != time]
    return sorted((path for path in changed if not path.name.endswith(".crc")), key=times.__getitem__)
