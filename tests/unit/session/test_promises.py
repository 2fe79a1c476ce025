"""Promises in a session: created, shown, altered, kept over a restart, predicted."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from headrace.commands.command import AddQuery, DropQuery, SetPromises, decode_command, encode_command
from headrace.commands.running import Running
from headrace.commands.settings import Scheduler
from headrace.errors import NameFault, QueryError, SyntaxFault, TypeFault
from headrace.model.qos import Qos, qos_of
from headrace.session import Listing, Message, Session

FILE = """
CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE, who STRING) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM asks (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY dear WITH (latency '500 ms' MUST, error 0.1, shed SMALLEST price) AS SELECT item, price FROM bids
  WHERE price > 10 INTO MEMORY;
CREATE QUERY deals AS SELECT b.item, b.price FROM bids [RANGE 10 SECONDS] AS b
  JOIN asks [RANGE 5 SECONDS] AS a ON a.item = b.item INTO MEMORY;
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "state"


def promises(session: Session, query: str = "dear") -> dict[str, str]:
    (listing,) = session.execute(f"DESCRIBE {query}")
    assert isinstance(listing, Listing)
    return {row[0].removeprefix("WITH "): row[1] for row in listing.rows if row[0].startswith("WITH ")}


def told(session: Session, text: str) -> str:
    (message,) = session.execute(text)
    assert isinstance(message, Message)
    return message.text


def test_promises_are_shown() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        assert promises(session) == {"latency": "'500 ms' MUST", "error": "0.1", "shed": "SMALLEST price"}
        assert promises(session, "deals") == {}
        (listing,) = session.execute("SHOW QUERIES")
        assert isinstance(listing, Listing)
        shown = {row[0]: row[listing.columns.index("promises")] for row in listing.rows}
        assert shown == {"dear": "latency '500 ms' MUST, error 0.1, shed SMALLEST price", "deals": None}


def test_alter_changes_what_it_names_and_survives_a_restart(checkpoint: Path) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(FILE)
        said = told(session, "ALTER QUERY dear SET (latency '200 ms' BEST EFFORT, error NONE, priority = 3)")
        assert said == "dear promises latency '200 ms' BEST EFFORT, shed SMALLEST price, priority 3"
        changed = promises(session)
    assert changed == {"latency": "'200 ms' BEST EFFORT", "shed": "SMALLEST price", "priority": "3"}
    with Session(checkpoint, host="local") as session:
        assert promises(session) == changed
        session.execute(FILE)  # the same file again changes nothing
        assert promises(session) == changed


def test_a_query_that_is_off_can_be_altered(checkpoint: Path) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(FILE + "CREATE QUERY night START '22:00' STOP '06:00' AS SELECT item FROM bids INTO MEMORY;")
        session.execute("STOP QUERY dear; ALTER QUERY dear SET (latency '200 ms' BEST EFFORT)")
        session.execute("ALTER QUERY dear SET scheduler = 'edf'; ALTER QUERY night SET (error 0.2)")
        with pytest.raises(NameFault, match="no running query 'dear'") as refused:
            session.execute("ASSUME dear WHERE item = 3 FOR 1 HOUR")
        assert refused.value.hint == "it is off: START QUERY dear first"
    with Session(checkpoint, host="local") as session:
        session.execute("START QUERY dear")
        assert promises(session) == {"latency": "'200 ms' BEST EFFORT", "error": "0.1", "shed": "SMALLEST price"}
        assert session.running().schedulers["dear"] == Scheduler("edf")
        assert promises(session, "night") == {"error": "0.2"}


def test_a_percentile_is_shown_as_it_can_be_written_again() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        for percentile in ("p99.99999", "p99.9", "p29", "p50"):
            session.execute(f"ALTER QUERY deals SET (latency {percentile} '1 s')")
            assert promises(session, "deals") == {"latency": f"{percentile} '1 s' BEST EFFORT"}


def test_statements_of_one_text_alter_in_turn() -> None:
    with Session(host="local") as session:
        session.execute(FILE + "ALTER QUERY dear SET (memory '1 MB'); ALTER QUERY dear SET (latency NONE);")
        assert promises(session) == {"memory": "'1 MB' BEST EFFORT", "error": "0.1", "shed": "SMALLEST price"}


def test_running_keeps_promises_until_the_query_is_dropped() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        running = session.deployment.intake.deployments.at(2).running  # type: ignore[attr-defined]
    strict = qos_of({"latency": "1 ms", "latency.class": "MUST"})
    after = running.after(decode_command(encode_command(SetPromises("deals", strict))))
    assert after.promises() == {**running.promises(), "deals": strict}
    assert after.commands == running.commands + 1
    assert after.after(DropQuery("deals")).promises() == running.after(DropQuery("deals")).promises()
    assert Running().after(SetPromises("gone", strict)).promises() == {}


def test_a_command_written_before_there_were_promises_is_read() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        (command, *_) = session.deployment.intake.deployments.at(2).running.queries  # type: ignore[attr-defined]
    old = json.loads(encode_command(command))
    del old["qos"]
    read = decode_command(json.dumps(old).encode())
    assert isinstance(read, AddQuery)
    assert read.qos == Qos()


@pytest.mark.parametrize(
    ("text", "kind", "pointed"),
    [
        ("CREATE QUERY q WITH (latency 'soon' MUST) AS SELECT item FROM bids", SyntaxFault, "'soon' MUST"),
        ("CREATE QUERY q WITH (latancy '1 s') AS SELECT item FROM bids", NameFault, "latancy"),
        ("CREATE QUERY q WITH (shed SMALLEST prize) AS SELECT item FROM bids", NameFault, "SMALLEST prize"),
        ("CREATE QUERY q WITH (shed LARGEST who) AS SELECT item FROM bids", TypeFault, "LARGEST who"),
        ("CREATE QUERY q WITH (shed CENTER price) AS SELECT item FROM bids", SyntaxFault, "CENTER price"),
        ("CREATE QUERY q WITH (latency NONE) AS SELECT item FROM bids", SyntaxFault, "NONE"),
        ("ALTER QUERY dear SET (memory '5 apples')", SyntaxFault, "'5 apples'"),
        ("ALTER QUERY dear SET (ordered)", NameFault, "ordered"),
        ("ALTER QUERY dear SET (shed OUTLIER who 3)", TypeFault, "OUTLIER who 3"),
        ("ALTER QUERY deer SET (memory '5 MB')", NameFault, "deer"),
        ("ALTER QUERY dear SET latency = '5 s'", NameFault, "latency"),
    ],
)
def test_mistakes_are_pointed_at(text: str, kind: type[QueryError], pointed: str) -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        with pytest.raises(kind) as refused:
            session.execute(text)
    span = refused.value.span
    assert span is not None
    assert text[span.start : span.end] == pointed


def test_a_setting_that_is_a_promise_is_told_its_place() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        with pytest.raises(NameFault) as refused:
            session.execute("ALTER QUERY dear SET latency = '5 s'")
    assert "SET (latency" in str(refused.value.hint)


def feed(session: Session, rows: int = 2000) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for name in ("bids", "asks"):
        row = {"who": "me"} if name == "bids" else {}
        session.push(
            name,
            [
                {"at": start + datetime.timedelta(milliseconds=10 * i), "item": i % 50, "price": i % 20, **row}
                for i in range(rows)
            ],
        )


def test_explain_capacity_uses_what_was_measured() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        assert "(assumed)" in told(session, "EXPLAIN CAPACITY dear")
        for _ in range(2):
            feed(session)
            session.deployment.step()  # type: ignore[attr-defined]
        shown = told(session, "EXPLAIN CAPACITY dear")
        found = json.loads(told(session, "EXPLAIN CAPACITY JSON dear"))
    assert "(assumed)" not in shown
    assert "dear: latency at most 500 ms MUST" in shown
    assert "deals" not in shown
    operators = {line["vertex"].split("-")[0]: line for line in found["operators"]}
    assert operators["filter"]["selectivity"] == pytest.approx(9 / 20)
    assert operators["filter"]["assumed"] == []
    assert operators["scan"]["assumed"] == []
    assert found["streams"]["bids"] == pytest.approx(found["streams"]["asks"])
    assert found["streams"]["bids"] > 0


def test_explain_capacity_takes_a_select_as_if_it_ran() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        shown = told(session, "EXPLAIN CAPACITY SELECT item, count(*) AS n FROM bids [RANGE 1 MINUTE] GROUP BY item")
        assert "count per item, 1 min" in shown
        assert "nothing is promised" in shown
        (listing,) = session.execute("SHOW QUERIES")
        assert isinstance(listing, Listing)
        assert len(listing.rows) == 2  # it does not run
        with pytest.raises(NameFault):
            session.execute("EXPLAIN CAPACITY bids")


def test_explain_capacity_finds_queries_whatever_the_case_and_views_as_well() -> None:
    with Session(host="local") as session:
        session.execute(
            FILE + "CREATE VIEW cheap AS SELECT item FROM bids WHERE price < 3; "
            "CREATE QUERY query AS SELECT who FROM bids INTO MEMORY;"
        )
        assert "dear: latency at most 500 ms MUST" in told(session, "EXPLAIN CAPACITY DEAR")
        assert "cheap" in told(session, "EXPLAIN CAPACITY cheap")
        assert "filter" in told(session, "EXPLAIN CAPACITY SELECT item FROM bids WHERE price < 4")


def test_a_query_may_be_called_capacity() -> None:
    with Session(host="local") as session:
        session.execute(FILE + "CREATE QUERY capacity AS SELECT item FROM bids INTO MEMORY;")
        assert "plan" in told(session, "EXPLAIN capacity")
        assert "processor" in told(session, "EXPLAIN CAPACITY capacity")


def test_an_error_that_comes_after_the_plan_is_said_not_to_scale() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        session.execute("CREATE QUERY n AS SELECT count(*) AS n FROM bids [RANGE 1 SECOND]")
        session.execute("CREATE QUERY m WITH (error 0.1) AS SELECT count(*) AS n FROM bids [RANGE 1 SECOND]")
        assert "not scaled up" in told(session, "ALTER QUERY n SET (error 0.2)")
        assert "not scaled up" not in told(session, "ALTER QUERY n SET (error NONE)")
        assert "not scaled up" not in told(session, "ALTER QUERY m SET (error 0.2)")


def test_a_second_percentile_is_the_promise_of_a_query_on_the_results():
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM b (k INT) TIMESTAMP INTERNAL FROM MEMORY;"
            "CREATE QUERY q WITH (latency p99 '2 s' MUST) AS SELECT k FROM b WHERE k > 1 INTO MEMORY;"
            "CREATE QUERY median WITH (latency p50 '1 s') AS SELECT * FROM q INTO MEMORY"
        )
        session.push("b", [{"k": k} for k in range(4)])
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        first, second = session._running().queries
        assert {v.id for v in second.graph.vertices[:-1]} == {v.id for v in first.graph.vertices[:-1]}
        observed = session.deployment.control.latest.queries
        assert all(observed[query].latency is not None for query in ("q", "median"))
