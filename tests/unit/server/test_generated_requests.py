"""Requests made from the OpenAPI document: nothing is answered with 500, nothing hangs, every answer fits."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.server.conftest import SQL, Client, end, serve
from tests.unit.server.request_fuzz import Requests, send, wrong

from headrace.server.server import Options
from headrace.testing.fuzz import corpus

_LOG = logging.getLogger(__name__)
#: For how long; more in a long run.
MINUTES, SEED = float(os.environ.get("HEADRACE_REQUEST_MINUTES", "0.3")), int(os.environ.get("HEADRACE_SEED", "1"))
#: By default at most so many: the same requests on any machine.
MOST = 10**9 if "HEADRACE_REQUEST_MINUTES" in os.environ else 4000
MORE = """
CREATE EVENT peak (item INT);
CREATE RULE tell ON dear DO RAISE EVENT peak(dear.item);
CREATE QUERY kept WITH (keep '1 day durable') AS SELECT item FROM bids;
CREATE TABLE newest (item INT, price DOUBLE, at TIMESTAMP, PRIMARY KEY (item)) FROM bids;
CREATE QUERY changes AS SELECT item, count(*) AS n FROM bids GROUP BY item EMIT CHANGES STATE TTL '1 day';
"""
#: Statements that are run, beside those of the golden scripts.
OWN = (
    "SHOW QUERIES", "SHOW STREAMS", "SHOW STATISTICS", "SHOW DECISIONS", "SHOW FEEDBACK", "SHOW PROMISES",
    "SHOW SETTINGS", "DESCRIBE bids", "DESCRIBE best", "EXPLAIN best", "EXPLAIN ANALYZE best", "EXPLAIN CAPACITY best",
    "SELECT item FROM bids WHERE price > 100", "STOP QUERY dear", "START QUERY dear", "DROP QUERY IF EXISTS more",
    "CREATE OR REPLACE QUERY more AS SELECT item, count(*) AS n FROM bids [ROWS 10] GROUP BY item",
    "ASSUME best WHERE item NOT IN (1, 2)", "DESIRE best WHERE item = 3", "DEMAND best WHERE item = 1",
    "CREATE VIEW v AS SELECT item FROM bids", "DROP VIEW IF EXISTS v", "DISABLE RULE tell", "ENABLE RULE tell",
    "ALTER QUERY best SET (latency '1 s' MUST)", "SET scheduler = 'edf'",
    # snapshots
    "SHOW ALL TABLES", "DESCRIBE kept", "FROM changes", "SELECT * FROM newest", "SELECT count(*) FROM headrace.history",
    "SELECT title, busy FROM headrace.vertices ORDER BY busy DESC", "SELECT d.item FROM dear d JOIN kept USING (item)",
    "SELECT * FROM headrace.promises p, headrace.queries q WHERE p.query = q.name", "EXPLAIN SELECT * FROM changes",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(120 + 90 * MINUTES)
def test_no_request_is_answered_with_an_error_of_ours(tmp_path: Path) -> None:
    _, golden = corpus(Path(__file__).parents[2] / "golden")
    # no files, no programs, no load: such statements are checked, and refused by the fence
    statements = [text for text in golden if "GENERATOR" not in text.upper()] + 40 * list(OWN)
    server = serve(tmp_path, SQL + MORE, Options(port=0, hosts=frozenset({"127.0.0.1"})))
    client = Client(server)
    found: Counter[tuple[str, int]] = Counter()
    failures = []
    try:
        client.push({"item": 1, "price": 200.0, "at": "2026-01-01T00:00:00Z"})
        names = ["bids", "best", "dear", "kept", "tell", "peak", "more", "BEST"]
        requests = Requests(client.get("openapi.json"), names, statements, SEED)
        until = time.monotonic() + 60 * MINUTES
        while time.monotonic() < until and len(failures) < 20 and found.total() < MOST:
            request = requests.make()
            try:
                status, headers, body = send(server.port, client.token or "", request)
            except TimeoutError:
                failures.append(f"it hangs: {request}")
                continue
            found[request.route, status] += 1
            if (reason := wrong(server.routes, request, status, headers, body)) is not None:
                failures.append(f"{reason}\n  {request}")
        assert failures == []
        time.sleep(2)  # after wrong tokens the server refuses everything for a second
        state = client.get("deployment")["state"]
    finally:
        end(server)
    total = sum(found.values())
    _LOG.info("%d requests with seed %d: %s", total, SEED, Counter(status for _, status in found.elements()))
    assert state in ("running", "idle", "failed")
    assert {route for route, _ in found} >= {route.path for route in server.routes if route.method == "GET"}
    by_status = Counter[int]()
    for (_, status), count in found.items():
        by_status[status] += count
    assert by_status[200] > (total - by_status[429]) / 5, "most are not refused"
