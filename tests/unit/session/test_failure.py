"""A deployment that failed or is behind says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.cli.meter import Meter
from headrace.hosts.local import LocalDeployment
from headrace.model.time import MINUTE, SECOND, format_instant, parse_instant
from headrace.session import Listing, Message, Session
from headrace.testing.clock import VirtualClock

NOON = parse_instant("2026-03-01 12:00:00")


def rows_of(session: Session, statement: str) -> list[dict[str, Any]]:
    (listing,) = session.execute(statement)
    assert isinstance(listing, Listing)
    return [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]


def test_after_a_failure_no_query_is_said_to_be_on(tmp_path: Path) -> None:
    with Session(tmp_path / "run", host="local") as session:
        session.execute(
            f"""CREATE STREAM t (at TIMESTAMP, n BIGINT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY q AS SELECT n FROM t INTO FILES (path '{tmp_path / "out"}', format 'json');
            CREATE QUERY off AS SELECT n + 1 AS m FROM t INTO MEMORY; STOP QUERY off"""
        )
        session.push("t", [{"at": "2026-01-01 00:00:00", "n": 1}])
        (tmp_path / "out").rmdir()
        assert isinstance(session.deployment, LocalDeployment)
        with pytest.raises(Exception, match="results cannot be written"):
            session.deployment.step()
        states = {row["query"]: row["state"] for row in rows_of(session, "SHOW QUERIES")}
        assert states["q"].startswith("failed: results cannot be written to")
        assert states["off"] == "off"
        *_, last = session.execute("CREATE QUERY more AS SELECT n FROM t INTO MEMORY")
        assert isinstance(last, Message)
        assert "no query runs, because the deployment has failed: results cannot be written" in last.text
        (tmp_path / "out").mkdir()
        assert session.deployment.step()
        assert {row["state"] for row in rows_of(session, "SHOW QUERIES")} == {"on", "off"}


def test_unread_input_is_shown_with_its_age(tmp_path: Path) -> None:
    with Session(tmp_path / "run", host="local", limit=10) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        clock = deployment.clock = VirtualClock(NOON)
        session.execute(
            """CREATE STREAM t (at TIMESTAMP, n BIGINT) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM quiet (at TIMESTAMP, n BIGINT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY q AS SELECT n FROM t UNION ALL SELECT n FROM quiet INTO MEMORY"""
        )
        deployment.step()
        session.push("quiet", [{"at": format_instant(NOON), "n": 1}])
        for n in range(60):  # one a second, and ten are read at a time
            session.push("t", [{"at": format_instant(NOON + n * SECOND), "n": n}])
        clock.advance(MINUTE)
        for _ in range(3):
            assert deployment.step()
        behind = {row["stream"]: row["behind"] for row in rows_of(session, "SHOW STREAMS")}
        assert behind == {"t": "41 s", "quiet": "-"}  # at planning, records up to the 19th second had been read
        assert {row["stream"]: row["unread"] for row in rows_of(session, "SHOW STREAMS")} == {
            "t": "30 rows",
            "quiet": "-",
        }
        assert deployment.control.latest is not None
        assert deployment.control.latest.behind == {"t": 41.0}
        assert deployment.control.latest.unread_rows == {"t": 30}
        meter = Meter()
        meter.look(session.statistics())
        assert "0 tuples queued" in meter.headline()
        assert meter.headline().endswith("unread input: t 41.0 s behind (30 rows)")
        (message,) = session.execute("EXPLAIN CAPACITY q")
        assert isinstance(message, Message)
        assert "t is 41.0 s behind (30 rows unread): the forecast goes by the rate at which it is read" in message.text
        while deployment.step():
            pass
        assert {row["behind"] for row in rows_of(session, "SHOW STREAMS")} == {"-"}
        assert {row["unread"] for row in rows_of(session, "SHOW STREAMS")} == {"-"}
