"""A query that makes every micro-batch fail is left out, or removed by hand; the others lose nothing."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.files.sink import FilesSink
from headrace.errors import HeadraceError, HostFault, NameFault, OperatorFault, SinkFault
from headrace.session import Listing, Message, Session
from headrace.testing.aggregates import Broken, GeometricMean
from headrace.testing.watching import local_host

STREAMS = """
CREATE STREAM bids (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM asks (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE AGGREGATE broken(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Broken';
CREATE AGGREGATE fussy(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Fussy';
"""
GOOD = """
CREATE QUERY counts AS SELECT item, count(*) AS n, sum(price) AS s FROM bids [RANGE 10 SECONDS] GROUP BY item
  INTO MEMORY;
CREATE QUERY pairs AS SELECT b.item, count(*) AS n FROM
  (SELECT b.item AS item, a.price AS p FROM bids [RANGE 5 SECONDS] AS b JOIN asks [RANGE 5 SECONDS] AS a
   ON b.price = a.price) [RANGE 10 SECONDS] AS b GROUP BY b.item INTO MEMORY;
"""
BROKEN = "CREATE QUERY bad AS SELECT item, broken(price) AS b FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY;"
FUSSY = """
CREATE QUERY bad AS SELECT n, fussy(price) AS f FROM
  (SELECT b.item AS n, a.price AS price FROM bids [RANGE 5 SECONDS] AS b JOIN asks [RANGE 5 SECONDS] AS a
   ON b.item = a.item) [RANGE 10 SECONDS] AS j GROUP BY n INTO MEMORY;
"""
Rows = list[dict[str, Any]]


def rows(first: int, last: int, price: float = 1.0) -> Rows:
    return [
        {"item": i % 3, "price": price * (i % 4 + 1), "at": f"2026-01-01 00:00:{i:02d}"} for i in range(first, last)
    ]


def step_all(session: Session) -> None:
    while local_host(session).step():
        pass


def expected(portions: Sequence[Rows]) -> dict[str, Rows]:
    with Session(host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD)
        for portion in portions:
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        session.drain(60)
        return {name: ordered(session.results(name)) for name in ("counts", "pairs")}


def states_of(session: Session) -> dict[str, str]:
    (listing,) = session.execute("SHOW QUERIES")
    assert isinstance(listing, Listing)
    return {str(row[0]): str(row[-1]) for row in listing.rows}


def ordered(results: Rows) -> Rows:
    return sorted(results, key=lambda row: str(sorted(row.items())))


def test_a_query_that_fails_is_left_out_and_the_others_lose_nothing(tmp_path: Path) -> None:
    portions = [rows(0, 12), rows(12, 30)]
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        for portion in portions:
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        states = states_of(session)
        assert states["bad"].startswith("failed: python:headrace.testing.aggregates:Broken failed: RuntimeError: ")
        assert (states["counts"], states["pairs"]) == ("on", "on")
        assert list(session.failed()) == ["bad"]
        session.drain(60)
        assert {name: ordered(session.results(name)) for name in ("counts", "pairs")} == expected(portions)


def test_a_query_that_ran_and_then_fails_leaves_no_trace_in_the_buckets(tmp_path: Path) -> None:
    portions = [rows(0, 8), rows(8, 16, -1.0), rows(16, 30)]
    before: dict[str, Rows] = {}
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + FUSSY)
        for portion in portions[:2]:
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        before = {name: session.results(name) for name in ("counts", "pairs")}
    results = continued(tmp_path, portions[2:], before)
    assert results == expected(portions)


def test_a_query_that_failed_stays_so_after_a_restart_and_is_not_run_by_the_same_script(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", rows(0, 3))
        step_all(session)
    with Session(tmp_path, host="local", buckets=3) as session:
        *_, last = session.execute(STREAMS + GOOD + BROKEN)
        assert isinstance(last, Message)
        assert last.text.startswith("query bad already exists, and has failed: ")
        assert last.text.endswith("(START QUERY bad runs it again)")
        session.push("bids", rows(3, 6))
        step_all(session)
        assert states_of(session)["bad"].startswith("failed: ")


def test_a_query_that_failed_is_started_again_with_what_comes_then(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + FUSSY)
        for portion in (rows(0, 4), rows(4, 8, -1.0)):
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        assert list(session.failed()) == ["bad"]
        session.execute("STOP QUERY bad")
        assert list(session.failed()) == ["bad"], "it is off already"
        session.execute("START QUERY bad")
        step_all(session)
        assert states_of(session)["bad"] == "on"
        for portion in (rows(20, 24), rows(24, 28, -1.0)):
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        assert list(session.failed()) == ["bad"], "it fails again, and the others go on"
        session.execute("START QUERY bad")
        session.push("bids", rows(40, 43))
        session.push("asks", rows(40, 43))
        session.drain(60)
        assert sorted(row["n"] for row in session.results("bad") if row["f"] is not None)[-3:] == [0, 1, 2]
        portions = [rows(0, 4), rows(4, 8, -1.0), rows(20, 24), rows(24, 28, -1.0), rows(40, 43)]
        assert {name: ordered(session.results(name)) for name in ("counts", "pairs")} == expected(portions)


def test_a_query_that_failed_can_be_replaced_or_dropped(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", rows(0, 3))
        step_all(session)
        session.execute("CREATE OR REPLACE QUERY bad AS SELECT count(*) AS n FROM bids [RANGE 10 SECONDS] INTO MEMORY")
        step_all(session)
        assert session.failed() == {}
        session.push("bids", rows(10, 12))
        step_all(session)
        session.execute("CREATE QUERY worse AS SELECT broken(price) AS b FROM bids [RANGE 10 SECONDS] INTO MEMORY")
        session.push("bids", rows(12, 14))
        step_all(session)
        assert list(session.failed()) == ["worse"]
        session.execute("DROP QUERY worse")
        assert session.failed() == {}
        assert "worse" not in states_of(session)
        session.drain(60)
        assert [row["n"] for row in session.results("bad")] == [4]


def test_a_query_that_failed_is_removed_by_a_repair_as_well(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", rows(0, 12))
        session.push("asks", rows(0, 12))
        step_all(session)
        before = {name: session.results(name) for name in ("counts", "pairs")}
    with Session(tmp_path, host="local") as session:
        assert session.repair(["bad"]) == ["bad"]
        assert session.failed() == {}
    assert continued(tmp_path, [rows(12, 30)], before) == expected([rows(0, 12), rows(12, 30)])


def test_a_fault_that_passes_is_only_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def add(self: Broken, state: list[float], values: list[float]) -> list[float]:
        calls.append(len(values))
        if len(calls) < 4:
            raise ConnectionError("for a moment")
        return state

    monkeypatch.setattr(Broken, "add", add)
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", rows(0, 3))
        step_all(session)
        assert session.failed() == {}


def test_what_reads_a_query_that_fails_fails_with_it_and_what_shares_a_part_does_not(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.execute("CREATE QUERY above AS SELECT b FROM bad WHERE b > 1 INTO MEMORY")
        session.execute("CREATE QUERY same AS SELECT item, sum(price) AS s FROM bids [RANGE 10 SECONDS] GROUP BY item")
        session.push("bids", rows(0, 12))
        session.push("asks", rows(0, 12))
        step_all(session)
        assert sorted(session.failed()) == ["above", "bad"]
        assert states_of(session)["same"] == "on"


def test_a_rule_that_fails_is_left_out_and_enabled_again(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.register("note", lambda detection, **_: None)
        session.execute(STREAMS + GOOD)
        session.execute(
            """CREATE QUERY odd AS SELECT item, fussy(price) AS f FROM bids [RANGE 1 SECOND] GROUP BY item INTO MEMORY;
            CREATE EVENT low AS SELECT item FROM odd WHERE f > 0;
            CREATE RULE r ON low DO CALL note()"""
        )
        session.push("bids", rows(0, 3, -1.0))
        step_all(session)
        assert sorted(session.failed()) == ["odd", "r"]
        (listing,) = session.execute("SHOW RULES")
        assert isinstance(listing, Listing)
        assert str(listing.rows[0][4]).startswith("failed: ")
        session.execute("ENABLE RULE r; START QUERY odd")
        session.push("bids", rows(10, 13))
        session.drain(60)
        assert session.failed() == {}


def test_python_code_that_is_gone_at_a_restart_stops_only_its_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "gone_soon.py").write_text(
        "from headrace.testing.aggregates import GeometricMean\n"
        "class Mean(GeometricMean):\n    pass\n"
        "def parse(text):\n    return {'item': int(text)}\n"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n2\n")
    monkeypatch.syspath_prepend(str(code))
    portions = [rows(0, 12), rows(12, 30)]
    with Session(tmp_path / "run", host="local", buckets=3, python_modules=["gone_soon", "headrace.*"]) as session:
        session.execute(STREAMS + GOOD)
        session.execute(
            f"""CREATE AGGREGATE mean(DOUBLE) RETURNS DOUBLE FROM PYTHON 'gone_soon:Mean';
            CREATE STREAM lines (item INT) FROM FILES (path '{tmp_path / "in"}', format 'python:gone_soon:parse');
            CREATE QUERY means AS SELECT mean(price) AS m FROM bids [RANGE 10 SECONDS] INTO MEMORY;
            CREATE QUERY read AS SELECT item FROM lines INTO MEMORY"""
        )
        session.push("bids", portions[0])
        session.push("asks", portions[0])
        step_all(session)
        assert session.failed() == {}
        before = {name: session.results(name) for name in ("counts", "pairs")}
    (code / "gone_soon.py").unlink()
    for name in ("gone_soon", "headrace.connectors.formats.messages"):
        monkeypatch.delitem(sys.modules, name)
    results = continued(tmp_path / "run", portions[1:], before)
    assert results == expected(portions)
    with Session(tmp_path / "run", host="local") as session:
        assert sorted(session.failed()) == ["means", "read"]
        assert "ModuleNotFoundError" in session.failed()["means"]


def test_a_sink_that_raises_anything_stops_only_its_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: object, *_: object) -> None:
        raise ValueError("a value that nobody expected")

    with Session(tmp_path / "run", host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD)
        session.execute(f"CREATE QUERY bad AS SELECT item FROM bids INTO FILES (path '{tmp_path}/out', format 'csv')")
        monkeypatch.setattr(FilesSink, "write", write)
        session.push("bids", rows(0, 12))
        session.push("asks", rows(0, 12))
        step_all(session)
        assert "a value that nobody expected" in session.failed()["bad"]
        session.drain(60)
        assert {name: ordered(session.results(name)) for name in ("counts", "pairs")} == expected([rows(0, 12)])


@pytest.mark.parametrize("bytes_left", [0, 4, 50, 400])
def test_a_full_disk_is_not_due_to_the_query_that_writes_parquet(tmp_path: Path, bytes_left: int) -> None:
    def put(self: FilesSink, path: Path, rows: pl.DataFrame) -> None:
        with grown_to(bytes_left):
            real(self, path, rows)

    real = FilesSink._put
    with Session(tmp_path / "run", host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD)
        session.execute(f"CREATE QUERY kept AS SELECT item FROM bids INTO FILES (path '{tmp_path}/out')")
        with pytest.MonkeyPatch.context() as full:
            full.setattr(FilesSink, "_put", put)
            session.push("bids", rows(0, 12))
            with pytest.raises(SinkFault, match="File too large"):
                step_all(session)
        assert session.failed() == {}
        session.drain(60)
        assert len(pl.read_parquet(tmp_path / "out")) == 12


@contextmanager
def grown_to(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_query_that_was_replaced_while_its_micro_batch_failed_runs_on(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + BROKEN)
        session.push("bids", rows(0, 3))
        with pytest.raises(OperatorFault, match="broken on purpose"):
            step_all(session)
        session.execute("CREATE OR REPLACE QUERY bad AS SELECT count(*) AS n FROM bids [RANGE 10 SECONDS] INTO MEMORY")
        step_all(session)
        assert session.failed() == {}
        session.push("bids", rows(10, 12))
        session.drain(60)
        assert [row["n"] for row in session.results("bad")] == [2]


def test_if_all_queries_fail_nothing_is_left_out_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + BROKEN)
        session.push("bids", rows(0, 3))
        with pytest.raises(OperatorFault, match="broken on purpose"):
            step_all(session)
        assert session.failed() == {}
    monkeypatch.setattr(Broken, "add", GeometricMean.add)
    with Session(tmp_path, host="local") as session:
        session.drain(60)
        assert len(session.results("bad")) == 3


def test_a_removed_query_can_be_created_again(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + BROKEN)
        session.push("bids", rows(0, 3))
        with pytest.raises(OperatorFault):
            step_all(session)
    with Session(tmp_path, host="local") as session:
        assert session.repair(["BAD"]) == ["bad"]
        assert "bad" not in session.catalog
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute("CREATE QUERY bad AS SELECT count(*) AS n FROM bids [RANGE 10 SECONDS] INTO MEMORY")
        step_all(session)
        session.push("bids", rows(10, 12))
        session.drain(60)
        assert [row["n"] for row in session.results("bad")] == [2], "it begins after the micro-batch that is repeated"


def test_what_reads_the_query_must_go_with_it(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + BROKEN + "CREATE QUERY above AS SELECT b FROM bad WHERE b > 1 INTO MEMORY")
        session.push("bids", rows(0, 3))
        with pytest.raises(OperatorFault):
            step_all(session)
    with Session(tmp_path, host="local") as session:
        with pytest.raises(NameFault) as caught:
            session.repair(["bad"])
        assert caught.value.hint == "drop them with it: --drop above"
        assert session.repair(["bad", "above"]) == ["above", "bad"]


def test_a_running_session_and_an_unknown_query_are_refused(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + GOOD)
        step_all(session)
        with pytest.raises(HostFault, match="running"):
            session.repair(["counts"])
    with Session(tmp_path, host="local") as session:
        with pytest.raises(HeadraceError) as caught:
            session.repair(["count"])
        assert caught.value.hint is not None
        assert "counts" in caught.value.hint


def continued(directory: Path, portions: Sequence[Rows], before: dict[str, Rows] | None = None) -> dict[str, Rows]:
    """Go on with further input, and return all results with those from before."""
    with Session(directory, host="local", buckets=3) as session:
        session.start()
        step_all(session)
        for portion in portions:
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        session.drain(60)
        return {name: ordered([*(before or {}).get(name, []), *session.results(name)]) for name in ("counts", "pairs")}
