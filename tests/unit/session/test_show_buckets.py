"""SHOW BUCKETS: where each part of the state is, and how large."""

from headrace.session import Listing, Session
from headrace.session.listings.show import _buckets
from headrace.worker.wire import BucketNote


def test_buckets_are_listed_with_their_state_after_a_micro_batch() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;"
            "CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"
        )
        (listing,) = session.execute("SHOW BUCKETS")
        assert isinstance(listing, Listing)
        assert listing.rows == ()
        session.push("s", [{"at": "2026-01-01 00:00:00", "k": k} for k in range(20)])
        session.deployment.settle(1, 10)
        (listing,) = session.execute("SHOW BUCKETS")
        assert isinstance(listing, Listing)
        assert listing.columns == ("bucket", "machine", "state bytes", "cached bytes", "us in operators", "restored")
        assert [row[:2] for row in listing.rows] == [(0, "driver"), (1, "driver")]
        assert all(row[2] > 0 and row[3] == 0 for row in listing.rows)


def test_machines_and_moved_buckets_are_told() -> None:
    notes = [
        BucketNote(7, state_bytes=5, cached_bytes=4, machine="b", restored=True),
        BucketNote(2, operators_ns=1500, machine="a"),
    ]
    assert _buckets(notes).rows == ((2, "a", 0, 0, 2, False), (7, "b", 5, 4, 0, True))
