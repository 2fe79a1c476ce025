"""A SELECT list on complex events and repetitions: rules, restarts, statements that show them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.session.outcome import Listing

STREAMS = """
CREATE STREAM a (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM b (at TIMESTAMP, k INT, x INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM c (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
"""
EVENT = """SELECT a.k, COUNT(b) AS n, SUM(x) AS total, ARRAY_AGG(b) AS readings
    FROM a SEQUENCE b+ SEQUENCE c WITHIN 1 MINUTE WHERE a.k = b.k AND b.k = c.k"""
NEW_YEAR = datetime.datetime.fromisoformat("2026-01-01")


def at(second: float, **values: int) -> dict[str, Any]:
    return {"at": NEW_YEAR + datetime.timedelta(seconds=second), **values}


def test_a_repetition_continues_after_a_restart(tmp_path: Path) -> None:
    with Session(host="local", checkpoint=tmp_path, buckets=2) as session:
        session.execute(f"{STREAMS} CREATE EVENT e AS {EVENT}")
        session.execute("CREATE QUERY q AS SELECT k, n, total, readings FROM e INTO MEMORY")
        session.push("a", [at(1, k=1), at(1, k=2)])
        session.push("b", [at(2, k=1, x=5), at(3, k=2, x=7)])
        session.push("c", [at(0, k=1)])
        assert isinstance(session.deployment, LocalDeployment)
        while session.deployment.step():
            pass
    with Session(host="local", checkpoint=tmp_path) as session:
        session.push("b", [at(4, k=1, x=6)])
        session.push("c", [at(5, k=1), at(6, k=2)])
        session.drain(60)
        rows = sorted((row["k"], row["n"], row["total"], len(row["readings"])) for row in session.results("q"))
        assert rows == [(1, 2, 11, 2), (2, 1, 7, 1)]
        shown = session.execute("SHOW EVENTS")[0]
        assert isinstance(shown, Listing)
        assert "a SEQUENCE b+ SEQUENCE c" in str(shown.rows)
        described = session.execute("DESCRIBE e")[0]
        assert isinstance(described, Listing)
        names = [row[0] for row in described.rows]
        assert names[:5] == ["k", "n", "total", "readings", "event_start"]


def test_a_rule_reads_the_chosen_columns_in_its_own_context() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(f"""{STREAMS}
            CREATE EVENT e AS {EVENT};
            CREATE RULE each ON e CONTEXT CONTINUOUS WHEN e.total > 5 DO INSERT INTO MEMORY;
            CREATE RULE newest ON e WHEN n >= 1 DO INSERT INTO MEMORY;
        """)
        session.push("a", [at(1, k=1), at(3, k=1)])
        session.push("b", [at(2, k=1, x=5), at(4, k=1, x=4)])
        session.push("c", [at(5, k=1)])
        session.drain(60)
        found = {rule: [(row["n"], row["total"]) for row in session.results(rule)] for rule in ("each", "newest")}
        assert found == {"each": [(2, 9)], "newest": [(1, 4)]}


def test_a_select_list_does_not_hide_how_many_rules_led_to_an_event() -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(f"""{STREAMS}
            CREATE EVENT once (k INT);
            CREATE EVENT twice (k INT);
            CREATE EVENT chain AS SELECT once.k FROM TIMES (1, once);
            CREATE RULE first ON a DO RAISE EVENT once(k);
            CREATE RULE more ON chain DO RAISE EVENT twice(k);
            CREATE QUERY q AS SELECT k, cascade FROM twice INTO MEMORY;
        """)
        session.push("a", [at(1, k=3)])
        session.drain(60)
        assert [(row["k"], row["cascade"]) for row in session.results("q")] == [(3, 2)]
