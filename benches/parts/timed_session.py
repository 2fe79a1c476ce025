"""A program with a session that pushes rows and waits for its first result: `timed_session spark`, or `local`.

It tells when each part was over.
"""

from __future__ import annotations

import sys
import tempfile
import threading

from benches.parts.moments import Moments

if __name__ == "__main__":
    moments = Moments()
    host = sys.argv[1]
    assert host in ("spark", "local")
    from headrace.session import Session

    if host == "spark":
        moments.watch_spark()
    else:
        moments.watch()
    came = threading.Event()
    with tempfile.TemporaryDirectory(prefix="headrace-session-") as folder:
        with Session(folder, host="local" if host == "local" else "spark", live=host == "local") as session:
            moments.note("Session() has returned")
            session.execute("""
                CREATE STREAM bids (at TIMESTAMP, item INT, price INT) TIMESTAMP BY at AHEAD UNLIMITED FROM MEMORY;
                CREATE QUERY sums AS SELECT item, sum(price) AS s FROM bids [RANGE 1 MINUTE] GROUP BY item INTO MEMORY;
            """)
            session.subscribe("sums", lambda batch, rows: came.set())
            times = (f"2026-01-01 00:{number // 60:02}:{number % 60:02}" for number in range(1_000))
            session.push("bids", [{"at": at, "item": n % 7, "price": n % 13} for n, at in enumerate(times)])
            moments.note("the rows are pushed")
            if not came.wait(120):
                raise TimeoutError("no result within two minutes")
            moments.note("the first result is there")
        moments.note("the session is closed")
    moments.tell()
