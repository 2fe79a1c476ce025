"""A row that a sink, a rule or a subscriber cannot take goes to a side stream; everything else goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import NameFault
from headrace.session import Listing, Session
from headrace.testing.watching import local_host

STREAM = "CREATE STREAM s (k INT, at TIMESTAMP) FROM MEMORY;"
#: One tuple of three has a date that only columnar formats hold.
FAR = "SELECT k, CASE WHEN k = 1 THEN at + INTERVAL '3000000 days' ELSE at END AS far FROM s"
ROWS = [{"k": k, "at": "2026-01-01 00:00:00"} for k in range(3)]


def step_all(session: Session) -> None:
    while local_host(session).step():
        pass


def shown(session: Session, what: str) -> dict[str, Any]:
    (listing,) = session.execute(f"SHOW {what}")
    assert isinstance(listing, Listing)
    return dict(zip(listing.columns, listing.rows[0], strict=True))


@pytest.mark.parametrize("sink", ["MEMORY", "CONSOLE"])
@pytest.mark.parametrize(
    ("held", "shown_as"),
    [
        ("array(NULL, far)", "[None, 2"),
        ("named_struct('at', far, 'k', k)", "{'at': 2"),
        ("map('at', far)", "[{'key': 'at', 'value': 2"),
        ("map(far, 'at')", "[{'key': 2"),
        ("array(named_struct('days', array(to_date(far))))", "[{'days': [3"),
    ],
)
def test_a_row_whose_nested_value_holds_such_a_time_is_set_aside(held: str, shown_as: str, sink: str) -> None:
    with Session(host="local") as session:
        session.execute(STREAM + f"CREATE QUERY q AS SELECT k, {held} AS held FROM ({FAR}) AS f INTO {sink}, MEMORY")
        session.execute("CREATE QUERY lost AS SELECT reason, detection FROM q.failed INTO MEMORY")
        step_all(session)
        session.push("s", ROWS)
        step_all(session)
        (row, *_) = session.results("lost")
        assert row["reason"] == "column 'held' is not between year 1 and year 9999"
        assert shown_as in row["detection"]
        assert [row["k"] for row in session.results("q")] == [0, 2]
        assert session.failed() == {}


@pytest.mark.parametrize(
    "sink", ["MEMORY", "CONSOLE", "FILES (path '{}', format 'csv')", "FILES (path '{}', format 'json')"]
)
def test_a_row_that_a_sink_cannot_hold_is_set_aside_with_its_reason(sink: str, tmp_path: Path) -> None:
    with Session(tmp_path / "state", host="local") as session:
        session.execute(STREAM + f"CREATE QUERY q AS {FAR} INTO {sink.format(tmp_path / 'out')}")
        session.execute("CREATE QUERY lost AS SELECT action, reason, detection FROM q.failed INTO MEMORY")
        step_all(session)
        session.push("s", ROWS)
        step_all(session)
        (row,) = session.results("lost")
        assert row["action"] == "INTO " + sink.partition(" ")[0]
        assert row["reason"] == "column 'far' is not between year 1 and year 9999"
        assert '"k": 1' in row["detection"]
        assert shown(session, "QUERIES")["failed"] == 1
        if sink == "MEMORY":
            assert [row["k"] for row in session.results("q")] == [0, 2]
        if sink.startswith("FILES"):
            written = "".join(path.read_text() for path in (tmp_path / "out").glob("part-*"))
            assert written.count("2026-01-01") == 2


def test_a_columnar_file_holds_every_date(tmp_path: Path) -> None:
    with Session(host="local") as session:
        session.execute(STREAM + f"CREATE QUERY q AS {FAR} INTO FILES (path '{tmp_path}', format 'parquet')")
        session.push("s", ROWS)
        session.drain(60)
        assert session.statistics().queries["q"].failed == 0
        assert session.statistics().queries["q"].results == 3


def test_a_rule_calls_for_the_other_detections() -> None:
    calls: list[int] = []
    with Session(host="local") as session:
        session.register("note", lambda detection, *, key: calls.append(detection["k"]))
        session.register("look", lambda far, *, key: calls.append(far.year))
        session.execute(
            STREAM
            + f"CREATE EVENT e AS {FAR}; CREATE RULE r ON e DO CALL note, CALL look(far), INSERT INTO MEMORY;"
            + "CREATE QUERY lost AS SELECT action, reason, detection FROM r.failed INTO MEMORY"
        )
        step_all(session)
        session.push("s", ROWS)
        step_all(session)
        session.deployment.delivery.reactions.outbox.settle(60)
        step_all(session)
        assert calls == [0, 2026, 2, 2026]
        assert shown(session, "RULES")["failed"] == 3
        assert {row["reason"] for row in session.results("lost")} == {
            "column 'far' is not between year 1 and year 9999",
            "column '0' is not between year 1 and year 9999",
        }


def test_a_subscriber_that_raises_does_not_stop_the_deployment() -> None:
    taken: list[int] = []

    def take(batch: int, rows: list[dict[str, Any]]) -> None:
        taken.extend(row["k"] for row in rows)
        raise RuntimeError("on purpose")

    with Session(host="local") as session:
        session.execute(STREAM + f"CREATE QUERY q AS {FAR} INTO MEMORY")
        session.subscribe("q", take)
        session.push("s", ROWS)
        session.drain(60)
        assert taken == [0, 2]
        assert len(session.results("q")) == 2


def test_a_query_whose_failed_results_are_read_is_not_dropped() -> None:
    with Session(host="local") as session:
        session.execute(STREAM + f"CREATE QUERY q AS {FAR} INTO MEMORY")
        session.execute("CREATE QUERY lost AS SELECT reason FROM q.failed INTO MEMORY")
        with pytest.raises(NameFault, match="lost"):
            session.execute("DROP QUERY q")
