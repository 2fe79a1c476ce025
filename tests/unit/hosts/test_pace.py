"""PACE and joins that speak, from SQL to a running deployment: what is left out, told and counted."""

import datetime as dt
import sys
import types

import pytest

from headrace.errors import NameFault, NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone


@pytest.fixture(params=[False, True], ids=["kept", "restored"])
def session(request):
    with Session(host="local", buckets=3) as made:
        assert isinstance(made.deployment, LocalDeployment)
        made.deployment.forgetful = request.param
        made.execute("""
            CREATE STREAM ahead (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM behind (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY""")
        yield made


def push(session, stream, *rows):
    session.push(stream, [{"at": EPOCH + dt.timedelta(seconds=second), "k": k} for second, k in rows])
    while local_host(session).step():
        pass


def vertex(session, kind):
    return next(seen for name, seen in session.statistics().vertices.items() if name.startswith(kind))


def saved(session):
    """What guards have dropped, in buckets or where streams are read."""
    return sum(seen.saved for seen in session.statistics().guards.values())


def test_late_tuples_are_counted_and_what_was_told_is_dropped_and_counted_too(session):
    session.execute(
        "CREATE QUERY q AS SELECT * FROM ahead UNION behind WITH PACE ON MAX(ahead.at, behind.at) 1 MINUTE INTO MEMORY"
    )
    push(session, "ahead", (100, 1))
    push(session, "behind", (10, 2), (11, 3))
    push(session, "behind", (50, 4), (69, 5), (70, 6))
    push(session, "ahead", (101, 7))
    assert vertex(session, "pace").late == 2
    assert saved(session) == 2, "after the first late ones also those that lag by more than half the tolerance"
    assert [row["k"] for row in session.results("q")] == [1, 6, 7]
    listing = session.execute("SHOW STATISTICS")[0]
    assert [row[listing.columns.index("late")] for row in listing.rows if "with pace" in row[0]] == [2]


def test_what_a_pace_leaves_out_can_be_queried(session):
    session.execute("""
        CREATE QUERY q AS SELECT at, k FROM ahead UNION ALL SELECT at, k FROM behind WITH PACE ON rowtime 1 MINUTE
          INTO MEMORY;
        CREATE QUERY missed AS SELECT * FROM q.late INTO MEMORY;
        CREATE QUERY counts AS SELECT count(*) AS n, window_end FROM q.late [RANGE 1 MINUTE] INTO MEMORY""")
    push(session, "ahead", (100, 1))
    push(session, "behind", (10, 2), (11, 3))
    push(session, "behind", (39, 5), (80, 4))
    push(session, "ahead", (200, 6))
    push(session, "behind", (100, 9), (150, 8))
    session.drain()
    assert [row["k"] for row in session.results("q")] == [1, 4, 6, 8]
    assert [row["k"] for row in session.results("missed")] == [2, 3, 5, 9]
    found = [(row["n"], row["window_end"]) for row in session.results("counts")]
    assert found == [(3, EPOCH + dt.timedelta(minutes=2)), (1, EPOCH + dt.timedelta(minutes=4))], (
        "each counts when it was found to be late"
    )
    assert sum(seen.late for name, seen in session.statistics().vertices.items() if name.startswith("pace")) <= 4


def test_late_tuples_of_a_query_are_those_of_its_own_pace(session):
    session.execute("""
        CREATE QUERY q AS SELECT * FROM ahead UNION behind WITH PACE ON rowtime 1 MINUTE INTO MEMORY;
        CREATE VIEW sums AS SELECT k, count(*) AS n FROM q [RANGE 1 MINUTE] GROUP BY k""")
    with pytest.raises(NameFault, match=r"stream, table or query 'sums.late' does not exist") as refused:
        session.execute("SELECT * FROM sums.late")
    assert "q.late" in str(refused.value.hint)
    session.execute("CREATE QUERY missed AS SELECT k FROM q.late WHERE k > 1 INTO MEMORY")
    with pytest.raises(NameFault, match="missed"):
        session.execute("DROP QUERY q")
    assert [field for field, _ in session.execute("DESCRIBE q.late")[0].rows] == ["at", "k"]


def test_work_that_takes_long_is_not_begun_so_late(session):
    """The cut is never nearer to the tolerance than two services."""
    session.execute(
        "CREATE QUERY q AS SELECT * FROM ahead UNION behind WITH PACE ON rowtime 1 MINUTE CUT 1 SERVICE 15 SECONDS "
        "INTO MEMORY"
    )
    push(session, "ahead", (100, 1))
    push(session, "behind", (10, 2))
    push(session, "behind", (69, 3), (70, 4))
    assert [row["k"] for row in session.results("q")] == [1, 4]
    assert "CUT 1 SERVICE 15 s" in session.execute("EXPLAIN q")[0].text
    with pytest.raises(NotSupported, match="at most half of the tolerance"):
        session.execute("SELECT * FROM ahead UNION behind WITH PACE ON rowtime 1 MINUTE SERVICE 31 SECONDS")


def test_what_reads_a_paced_query_shares_it_and_stays_in_its_bucket(session):
    session.execute("""CREATE QUERY q AS SELECT * FROM ahead UNION behind WITH PACE ON rowtime 10 SECONDS INTO MEMORY;
                       CREATE QUERY counts AS SELECT k, count(*) AS n FROM q [RANGE 10 SECONDS] GROUP BY k
                         INTO MEMORY""")
    push(session, "ahead", (1, 1), (2, 1), (3, 2))
    push(session, "behind", (4, 2), (5, 2))
    push(session, "ahead", (31, 3))
    assert sorted((row["k"], row["n"]) for row in session.results("counts")) == [(1, 2), (2, 3)], (
        "though the other stream lags"
    )
    assert sum(name.startswith("pace") for name in session.statistics().vertices) == 1
    assert not any(name.startswith("exchange") for name in session.statistics().vertices)


def test_a_thrifty_join_does_not_even_take_what_can_meet_nobody(session):
    for name, manner in (("plain", ""), ("thrifty", "THRIFTY")):
        session.execute(f"""CREATE QUERY {name} AS SELECT a.k, b.at AS at FROM ahead [RANGE 10 SECONDS] AS a
                            {manner} JOIN behind [RANGE 10 SECONDS] AS b ON a.k = b.k INTO MEMORY""")
    push(session, "ahead", (100, 1), (105, 2))
    push(session, "behind", *((second, second % 3) for second in range(80)))
    push(session, "behind", (95, 1), (99, 2))
    session.drain()
    results = {name: sorted((row["k"], row["at"]) for row in session.results(name)) for name in ("plain", "thrifty")}
    assert [k for k, _ in results["plain"]] == [1, 2]
    assert results["plain"] == results["thrifty"]
    assert saved(session) == 80, "of the thrifty one; the plain one says nothing"


@pytest.mark.parametrize("forgetful", [False, True], ids=["kept", "restored"])
def test_an_impatient_join_of_one_bucket_reads_partners_first(forgetful):
    for manner, pages in (("", 2), ("IMPATIENT", 3)):
        with Session(host="local", buckets=1) as session:
            assert isinstance(session.deployment, LocalDeployment)
            session.deployment.forgetful = forgetful
            session.execute(f"""
                CREATE STREAM ahead (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
                CREATE STREAM behind (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
                CREATE QUERY q AS SELECT b.k AS k FROM ahead [RANGE 10 SECONDS] AS a {manner}
                  JOIN behind [RANGE 10 SECONDS] AS b ON a.k = b.k
                INTO MEMORY""")
            push(session, "ahead", (1, 4))
            push(session, "behind", (1, 1), (2, 1), (3, 4))
            assert vertex(session, "join").pages_in == pages, "the partner comes by itself, the rest behind it"
            assert [row["k"] for row in session.results("q")] == [4]


def test_an_impatient_join_gets_the_partners_of_what_it_has_before_the_rest(session):
    session.execute("""CREATE QUERY impatient AS SELECT b.k AS k FROM ahead [RANGE 10 SECONDS] AS a
                       IMPATIENT JOIN behind [RANGE 10 SECONDS] AS b ON a.k = b.k INTO MEMORY""")
    push(session, "ahead", (1, 4))
    push(
        session, "behind", (1, 1), (2, 1), (3, 4), (3, 4)
    )  # all by hash in one bucket or not: each key is asked for where it is
    push(session, "ahead", (3, 1))
    session.drain()
    assert [row["k"] for row in session.results("impatient")] == [4, 4, 1, 1]


@pytest.fixture
def asked(monkeypatch):
    """The detectors whose archive was asked."""
    keys = []
    module = types.ModuleType("paced_archive")
    monkeypatch.setattr(module, "usual", lambda key: keys.append(key) or 50.0, raising=False)
    monkeypatch.setitem(sys.modules, "paced_archive", module)
    return keys


def test_what_will_be_too_late_is_not_imputed(asked):
    """The plan of the feedback paper: split into whole and broken tuples, impute these, put both together at a pace."""
    with Session(host="local", buckets=3) as session:
        session.execute("""
            CREATE STREAM readings (at TIMESTAMP, k INT, speed DOUBLE) TIMESTAMP BY at SKEW 10 MINUTES FROM MEMORY;
            SPLIT readings INTO whole WHEN speed IS NOT NULL, broken ELSE;
            CREATE VIEW mended AS SELECT at, k, IMPUTE(speed USING 'python:paced_archive:usual' ON k) AS speed
              FROM broken;
            CREATE QUERY tidy AS SELECT * FROM whole UNION mended WITH PACE ON MAX(whole.at, mended.at) 1 MINUTE
              INTO MEMORY""")

        def read(*rows):
            session.push(
                "readings",
                [{"at": EPOCH + dt.timedelta(seconds=second), "k": k, "speed": speed} for second, k, speed in rows],
            )
            while local_host(session).step():
                pass

        read((0, 0, 30.0), (1, 1, None), (2, 2, None))
        assert asked == [1, 2]
        asked.clear()
        read((310, 999, 30.0))
        read(*((10 + second, second, None) for second in range(300)))
        assert asked == [*range(64), *range(270, 300)], (
            "the first portion shows that they lag; of the rest only what is younger than the cut"
        )
        found = [(row["k"], row["speed"]) for row in session.results("tidy")]
        assert found == [(0, 30.0), (1, 50.0), (2, 50.0), (999, 30.0), *((k, 50.0) for k in range(270, 300))]
        late = sum(seen.late for seen in session.statistics().vertices.values())
        assert late + saved(session) + len(found) == 4 + 300, "nothing is lost silently"

        # within one micro-batch both come in step
        read(*((320 + second, second, None if second % 3 else 30.0) for second in range(300)))
        assert len(session.results("tidy")) - len(found) == 300


def test_an_impute_without_a_pace_runs_where_streams_are_read(asked):
    with Session(host="local", buckets=2) as session:
        session.execute("""
            CREATE STREAM readings (at TIMESTAMP, k INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY q AS SELECT k, IMPUTE(speed USING 'python:paced_archive:usual' ON k) AS speed FROM readings
              INTO MEMORY""")
        shown = session.execute("EXPLAIN q")[0].text
        assert shown.index("  impute ") < shown.index("buckets (keyed")
        session.push("readings", [{"at": EPOCH, "k": 1, "speed": None}, {"at": EPOCH, "k": 2, "speed": 1.0}])
        session.drain()
        assert sorted((row["k"], row["speed"]) for row in session.results("q")) == [(1, 50.0), (2, 1.0)]
        assert asked == [1]


def test_what_a_pace_tells_goes_through_the_imputation_to_where_streams_are_read(session, asked):
    session.execute("""CREATE QUERY q AS SELECT at, k FROM ahead UNION ALL
                       SELECT at, CAST(IMPUTE(nullif(k * 1.0, k) USING 'python:paced_archive:usual' ON k) AS INT) AS k
                         FROM behind
                       WITH PACE ON MAX(ahead.at, behind.at) 1 MINUTE INTO MEMORY""")
    push(session, "ahead", (100, 1))
    push(session, "behind", (10, 2))
    assert asked == [2]
    push(session, "behind", (20, 3), (69, 4), (71, 5))
    assert asked == [2, 5]
    dropped = {
        reader.partition(":")[0].partition("-")[0]
        for (reader, _), seen in session.statistics().guards.items()
        if seen.saved
    }
    assert dropped == {"tap"}, "before they were sent to a bucket"
    assert [row["k"] for row in session.results("q")] == [1, 50]


@pytest.mark.parametrize("seconds", [50, 300])
def test_streams_that_are_read_in_one_micro_batch_arrive_in_step(session, seconds):
    session.execute(
        "CREATE QUERY q AS SELECT * FROM ahead UNION behind WITH PACE ON MAX(ahead.at, behind.at) 1 MINUTE INTO MEMORY"
    )
    for stream in ("ahead", "behind"):
        rows = [{"at": EPOCH + dt.timedelta(seconds=second), "k": second} for second in range(seconds)]
        session.push(stream, rows)
    late = [{"at": EPOCH + dt.timedelta(seconds=seconds - 70), "k": -1}]
    session.push("behind", late if seconds > 70 else [])
    while local_host(session).step():
        pass
    assert [row["k"] for row in session.results("q") if row["k"] < 0] == [], "it lags behind its own stream"
    assert sorted(row["k"] for row in session.results("q")) == sorted([*range(seconds), *range(seconds)])
