"""Feedback from outside to a running deployment: what is dropped where, what is not read, and the results."""

import datetime as dt

import polars as pl
import pytest

from headrace.commands.command import SendFeedback
from headrace.commands.running import MAX_ASSUMPTIONS
from headrace.errors import HostFault, NameFault, NotSupported, SyntaxFault
from headrace.graph.feedback import invariants_of
from headrace.model.page import Page
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
AVERAGES = """CREATE QUERY speeds AS SELECT segment, avg(speed) AS speed, count(*) AS n, window_end
              FROM detectors [RANGE 10 SECONDS] WHERE speed < 200 GROUP BY segment INTO MEMORY"""


def reading(second, segment, speed=50.0):
    return {"at": EPOCH + dt.timedelta(seconds=second), "segment": segment, "speed": speed}


@pytest.fixture
def session():
    with Session(host="local", buckets=2) as made:
        made.execute(
            "CREATE STREAM detectors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;" + AVERAGES
        )
        yield made


def push(session, seconds, segments=range(9)):
    session.push("detectors", [reading(second, segment) for second in seconds for segment in segments])
    while local_host(session).step():
        pass


def segments(session, after=0):
    return sorted(
        {row["segment"] for row in session.results("speeds") if row["window_end"] > EPOCH + dt.timedelta(seconds=after)}
    )


def ended(session, second):
    """The segments of the window that ends then."""
    return sorted(
        row["segment"] for row in session.results("speeds") if row["window_end"] == EPOCH + dt.timedelta(seconds=second)
    )


def test_what_is_assumed_is_neither_computed_nor_delivered_and_comes_back_by_itself(session):
    push(session, range(21))
    session.execute("ASSUME speeds WHERE segment NOT IN (3, 4) FOR 20 SECONDS")
    push(session, range(21, 60))
    session.drain()
    assert {second: ended(session, second) for second in (20, 30, 50, 60)} == {
        20: list(range(9)),
        30: [3, 4],
        50: list(range(9)),
        60: list(range(9)),
    }
    needed = [row["n"] for row in session.results("speeds") if row["window_end"] == EPOCH + dt.timedelta(seconds=30)]
    assert needed == [10, 10], "what is needed is whole"


def test_the_guards_of_the_ingest_save_the_work_of_the_aggregate(session):
    push(session, range(21))
    session.execute("ASSUME speeds WHERE segment <> 3 FOR 20 SECONDS")
    push(session, range(21, 38))
    assert aggregated(session) == 21 * 9 + 17, "of the later tuples only those of segment 3"
    listing = session.execute("SHOW FEEDBACK")[0]
    assert any(row[3] > 0 for row in listing.rows), "somebody dropped something"
    assert any("segment <> 3" in row[1] for row in listing.rows)


def test_what_is_said_of_several_stretches_of_old_time_all_holds(session):
    for start in (0, 10, 20):
        times = (
            f"window_end > TIMESTAMP '2026-01-01 00:00:{start:02d}' "
            f"AND window_end <= TIMESTAMP '2026-01-01 00:00:{start + 10}'"
        )
        session.execute(f"ASSUME speeds WHERE segment <> {start // 10} AND {times}")
    push(session, range(45))
    assert {second: ended(session, second) for second in (10, 20, 30, 40)} == {
        10: [0],
        20: [1],
        30: [2],
        40: list(range(9)),
    }


@pytest.mark.slow
def test_guards_of_hundreds_of_assumptions_end_and_are_forgotten(session):
    push(session, range(11), range(3))
    for number in range(120):
        session.execute(f"ASSUME speeds WHERE segment = {number % 3} FOR 10 SECONDS")
        push(session, range(11 + number * 10, 21 + number * 10, 5), range(3))
        shown = session.execute("SHOW FEEDBACK")[0].rows
        assert sum(row[2] != "ended" for row in shown) <= 12, "they do not add up"
        assert len(shown) <= 120, "nor does what is remembered of those that ended"
    assert len(session._running().feedback) <= 3
    kept = [bucket.engine for bucket in session.deployment.kept.values()]
    assert all(len(engine.guards.in_force()) <= 8 for engine in kept)
    assert all(len(said) <= 8 for engine in kept for said in engine.guards.relayed.values())


def test_so_many_assumptions_are_in_force_at_once_and_no_more(session):
    push(session, range(11))
    for number in range(MAX_ASSUMPTIONS):
        session.execute(f"ASSUME speeds WHERE n = {number} FOR 1 HOUR")
    with pytest.raises(NotSupported, match="64 assumptions in force"):
        session.execute("ASSUME speeds WHERE segment = 5 FOR 1 HOUR")
    push(session, range(11, 31))
    assert ended(session, 20) == [], "all have 10 readings"
    push(session, range(3700, 3720))
    session.execute("ASSUME speeds WHERE segment = 5 FOR 1 HOUR")
    push(session, range(3720, 3741))
    assert ended(session, 3730) == [0, 1, 2, 3, 4, 6, 7, 8], "there is room again"


BY_MINUTE = """
    CREATE VIEW minutes AS SELECT date_trunc('minute', at) + INTERVAL '1' MINUTE AS until, segment, speed
      FROM detectors;
    CREATE QUERY tumbling AS SELECT until, segment, count(*) AS n, window_end FROM minutes [RANGE 10 SECONDS]
      GROUP BY until, segment INTO MEMORY;
    CREATE QUERY hopping AS SELECT until, count(*) AS n, window_end FROM minutes [RANGE 20 SECONDS SLIDE 10 SECONDS]
      GROUP BY until INTO MEMORY;
    CREATE QUERY sessions AS SELECT until, count(*) AS n, window_end FROM minutes [SESSION 5 SECONDS] GROUP BY until
      INTO MEMORY;
    CREATE QUERY sliding AS SELECT until, count(*) AS n, window_end FROM minutes [RANGE 30 SECONDS SLIDE TUPLE]
      GROUP BY until INTO MEMORY;
    CREATE QUERY counted AS SELECT until, sum(speed) AS n, window_end FROM minutes [PARTITION BY until ROWS 3]
      GROUP BY until INTO MEMORY;
    CREATE QUERY pairs AS SELECT a.until AS until, b.until AS other, a.segment AS n FROM minutes [RANGE 5 SECONDS] AS a
      LEFT JOIN minutes [RANGE 5 SECONDS] AS b ON a.segment = b.segment INTO MEMORY;
    CREATE QUERY plain AS SELECT until, segment AS n FROM minutes INTO MEMORY"""


@pytest.mark.parametrize("query", ["tumbling", "hopping", "sessions", "sliding", "counted", "pairs", "plain"])
def test_a_column_that_tells_the_time_ends_its_guards(session, query):
    """Progress of the timestamp is progress of every column that lies a bounded span from it."""
    session.execute(BY_MINUTE)
    push(session, range(0, 30, 3), range(2))
    session.execute(f"ASSUME {query} WHERE until = TIMESTAMP '2026-01-01 00:01:00'")
    push(session, range(30, 90, 3), range(2))
    assert any(seen.active and "until =" in pattern for (_, pattern), seen in session.statistics().guards.items())
    push(session, range(90, 180, 3), range(2))
    guards = {key: seen for key, seen in session.statistics().guards.items() if "until =" in key[1]}
    assert guards
    assert not any(seen.active for seen in guards.values()), "all have ended"
    session.drain()
    first = [row for row in session.results(query) if row["until"] == EPOCH + dt.timedelta(minutes=1)]
    later = [row for row in session.results(query) if row["until"] > EPOCH + dt.timedelta(minutes=1)]
    assert later
    assert not any(row["window_end"] > EPOCH + dt.timedelta(seconds=30) for row in first if "window_end" in row)
    if query == "sessions":
        assert session.statistics().purged >= 1, "the open session was forgotten"


def test_columns_that_tell_the_time_do_so(session):
    """What is known of a query's columns holds for all its results."""
    session.execute(BY_MINUTE)
    push(session, [*range(0, 100, 3), *range(107, 200, 4)], range(2))
    session.drain()
    checked = 0
    for running in session._running().queries:
        clocks = {
            clock.name: clock for clock in invariants_of(running.graph, {"detectors": "at"})[running.output].clocks
        }
        for row in session.results(running.query):
            for name in {"until", "other"} & row.keys():
                if "window_end" in row:
                    since = (row["window_end"] - row[name]) // dt.timedelta(microseconds=1)
                    assert clocks[name].least <= since <= clocks[name].most
                    checked += 1
        assert running.query == "speeds" or "until" in clocks
    assert checked > 100


@pytest.mark.parametrize("reach", ["results", "operator", "sources"])
def test_how_far_feedback_goes_changes_the_work_and_not_the_results(reach):
    with Session(host="local", buckets=2) as session:
        session.execute(
            "CREATE STREAM detectors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;" + AVERAGES
        )
        session.execute(f"ALTER SYSTEM SET feedback = '{reach}'")
        push(session, range(21))
        session.execute("ASSUME speeds WHERE segment > 0 FOR 20 SECONDS")
        push(session, range(21, 45))
        vertices = session.statistics().vertices
        work = {
            kind: sum(seen.tuples_in for name, seen in vertices.items() if name.startswith(kind))
            for kind in ("filter", "partialaggregate")
        }
        session.drain()
        assert segments(session, 45) == list(range(9))
        assert ended(session, 30) == [0]
    everything = 45 * 9
    assert (work["filter"] < everything) == (reach == "sources")
    assert (work["partialaggregate"] < everything) == (reach != "results")


def test_row_groups_that_nobody_needs_are_not_read_and_time_goes_on(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    clause = f"TIMESTAMP BY at SKEW 10 SECONDS FROM FILES (path '{data}', format 'parquet');"
    with Session(host="local", buckets=1) as session:
        session.execute(f"CREATE STREAM detectors (at TIMESTAMP, segment INT, speed DOUBLE) {clause}" + AVERAGES)

        def write(number):
            seconds = range(number * 10, number * 10 + 10)
            rows = [
                reading(second, segment) for segment in range(9) for second in seconds
            ]  # a group of rows for each segment
            frame = pl.DataFrame(rows, schema={"at": pl.Datetime("us"), "segment": pl.Int32, "speed": pl.Float64})
            frame.write_parquet(data / f"{number}.parquet", row_group_size=10, statistics=True)
            while local_host(session).step():
                pass

        for number in range(3):
            write(number)
        session.execute("ASSUME speeds WHERE segment <> 3 FOR 40 SECONDS")  # from second 20 on, up to which results are
        for number in range(3, 8):
            write(number)
        seen = session.statistics().streams["detectors"]
        assert seen.skipped == 2 * 80, "seconds 30 to 50; of later ones results come after the time that was named"
        assert seen.skipped_bytes > 0
        session.drain()
        assert {second: ended(session, second) for second in (10, 40, 70)} == {
            10: list(range(9)),
            40: [3],
            70: list(range(9)),
        }


@pytest.mark.parametrize(("assumed", "batches"), [(False, 9), (True, 1)])
def test_a_micro_batch_of_which_most_is_left_out_reads_further(tmp_path, assumed, batches):
    with Session(tmp_path / "checkpoint", host="local", buckets=1, limit=120) as session:
        clause = f"TIMESTAMP BY at SKEW 2 MINUTES FROM FILES (path '{tmp_path}', format 'parquet');"
        session.execute(f"CREATE STREAM detectors (at TIMESTAMP, segment INT, speed DOUBLE) {clause}" + AVERAGES)
        if assumed:
            session.execute("ASSUME speeds WHERE segment <> 3 AND window_end < TIMESTAMP '2026-01-02 00:00:00'")
        rows = [reading(second, segment) for segment in range(9) for second in range(100)]
        frame = pl.DataFrame(rows, schema={"at": pl.Datetime("us"), "segment": pl.Int32, "speed": pl.Float64})
        frame.write_parquet(tmp_path / "0.parquet", row_group_size=50, statistics=True)
        steps = 0
        while local_host(session).step():
            steps += 1
        session.drain()
        assert steps == batches, (
            "the limit of 120 is on what is read: two groups of fifty rows, and many that are only looked at"
        )
        assert [row["n"] for row in session.results("speeds") if row["segment"] == 3] == [10] * 10


def test_what_is_demanded_comes_at_once_and_again_when_it_is_final(session):
    push(session, range(5))
    (listing,) = session.execute("DEMAND speeds WHERE segment = 3")
    rows = [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]
    assert [(row["segment"], row["n"], row["partial"]) for row in rows] == [(3, 5, True)]
    assert session.results("speeds") == []
    push(session, range(5, 11))
    assert [row["n"] for row in session.results("speeds") if row["segment"] == 3] == [10]


def test_a_demand_is_not_answered_with_the_rows_of_an_earlier_one(session):
    push(session, range(5))
    assert len(session.execute("DEMAND speeds WHERE segment = 3")[0].rows) == 1
    (listing,) = session.execute("DEMAND speeds WHERE segment = 999")
    assert listing.rows == ()
    assert session.partials("speeds") == []


def test_each_of_several_demands_gets_its_own_answer(session):
    push(session, range(5))
    first, second = session.execute("DEMAND speeds WHERE segment = 3; DEMAND speeds WHERE segment IN (4, 5)")
    assert [[row[first.columns.index("segment")] for row in rows.rows] for rows in (first, second)] == [[3], [4, 5]]


DEMANDED = {
    "an aggregate": "SELECT segment, count(*) AS n, window_end FROM detectors [RANGE 10 SECONDS] GROUP BY segment",
    "an ordered aggregate": """SELECT segment, count(*) AS n, window_end FROM detectors [RANGE 10 SECONDS]
        GROUP BY segment ORDER BY rowtime""",
    "overlapping windows": """SELECT segment, sum(speed) AS n, window_end
        FROM detectors [RANGE 10 SECONDS SLIDE 5 SECONDS]
        GROUP BY segment""",
    "sessions": "SELECT segment, count(*) AS n FROM detectors [SESSION 5 SECONDS] GROUP BY segment",
    "an inner aggregate": """SELECT segment, sum(n) AS n FROM (SELECT segment, count(*) AS n, window_end
        FROM detectors [RANGE 10 SECONDS] GROUP BY segment) AS s [RANGE 30 SECONDS] GROUP BY segment""",
    "a join over an aggregate": """SELECT d.segment, s.n FROM detectors [RANGE 20 SECONDS] AS d JOIN
        (SELECT segment, count(*) AS n FROM detectors [RANGE 10 SECONDS] GROUP BY segment) [RANGE 20 SECONDS] AS s
        ON d.segment = s.segment""",
    "an outer join": """SELECT a.segment, b.at FROM detectors [RANGE 20 SECONDS] AS a LEFT JOIN detectors [NOW] AS b
        ON a.segment = b.segment AND b.speed > 100""",
    "a plain selection": "SELECT segment FROM detectors",
    "another key": """SELECT n, count(*) AS m FROM (SELECT segment, count(*) AS n FROM detectors [RANGE 10 SECONDS]
        WHERE segment < 2 OR speed < 70 GROUP BY segment) AS s [RANGE 30 SECONDS] GROUP BY n""",
    "two exchanges": """SELECT m, max(n) AS n FROM (SELECT n, count(*) AS m FROM (SELECT segment, count(*) AS n
        FROM detectors [RANGE 10 SECONDS] GROUP BY segment) AS s [RANGE 30 SECONDS] GROUP BY n) AS t [RANGE 1 MINUTE]
        GROUP BY m""",
    "a join behind an exchange": """SELECT d.segment, s.m FROM detectors [RANGE 1 MINUTE] AS d JOIN
        (SELECT n % 5 AS k, count(*) AS m FROM (SELECT segment, count(*) AS n FROM detectors [RANGE 10 SECONDS]
        GROUP BY segment) AS s [RANGE 30 SECONDS] GROUP BY n % 5) [RANGE 1 MINUTE] AS s ON d.segment = s.k""",
}


@pytest.mark.parametrize("shape", DEMANDED)
def test_a_demand_gives_what_would_come_if_the_streams_ended_now(session, shape):
    session.execute(f"CREATE QUERY demanded AS {DEMANDED[shape]} INTO MEMORY")
    push(session, range(25), range(3))
    before = session.results("demanded")
    (listing,) = session.execute("DEMAND demanded WHERE TRUE")
    assert session.results("demanded") == before, "nothing changes"
    rows = [row[:-1] for row in listing.rows]
    assert bool(rows) == (shape != "a plain selection")
    session.drain()
    final = session.results("demanded")[len(before) :]
    assert sorted(rows, key=str) == sorted((tuple(row.values()) for row in final), key=str)


def test_a_demand_sends_no_more_by_exchanges_than_it_needs(session, monkeypatch):
    session.execute("""CREATE QUERY counts AS SELECT n, segment % 3 AS rest, count(*) AS m FROM speeds [RANGE 1 MINUTE]
        GROUP BY n, segment % 3; CREATE QUERY ranks AS SELECT segment, n, count(*) AS m FROM speeds [RANGE 1 MINUTE]
        GROUP BY segment, n; CREATE QUERY sums AS SELECT n, sum(m) AS m FROM ranks [RANGE 2 MINUTES] WHERE segment = 3
        GROUP BY n INTO MEMORY""")
    push(session, range(5))
    for wanted, rows in (("TRUE", [(5, 0, 3), (5, 1, 3), (5, 2, 3)]), ("rest = 1", [(5, 1, 3)])):
        (listing,) = session.execute(f"DEMAND counts WHERE {wanted}")
        assert sorted(row[:3] for row in listing.rows) == rows
    (listing,) = session.execute("DEMAND sums WHERE TRUE")
    assert [row[:2] for row in listing.rows] == [(5, 1)]
    sent = [command for command in log_of(session) if isinstance(command, SendFeedback) and command.step]
    assert [sum(len(Page.decode(page.page)) for page in command.sent) for command in sent] == [5, 2, 1]
    monkeypatch.setattr("headrace.driver.demands.MOST_SENT", 0)
    with pytest.raises(HostFault, match="too many results that are not final"):
        session.execute("DEMAND counts WHERE TRUE")


NEAR = """CREATE QUERY near WITH (early) AS SELECT a.id, s.segment, s.n
  FROM alarms [RANGE 20 SECONDS] AS a IMPATIENT JOIN
  (SELECT segment, count(*) AS n FROM detectors [RANGE 10 SECONDS] GROUP BY segment) [RANGE 20 SECONDS] AS s
  ON a.segment = s.segment INTO MEMORY"""


def alarm(session, second, number, segment):
    at = EPOCH + dt.timedelta(seconds=second)
    session.push("alarms", [{"at": at, "id": number, "segment": segment}])
    while local_host(session).step():
        pass


@pytest.mark.parametrize("restarted", [False, True])
def test_a_join_demands_what_its_input_has_of_a_key_and_the_final_result_follows(session, restarted):
    session.execute("CREATE STREAM alarms (at TIMESTAMP, id INT, segment INT) TIMESTAMP BY at FROM MEMORY;" + NEAR)
    push(session, range(5))
    alarm(session, 4, 1, 3)
    assert session.results("near") == [{"id": 1, "segment": 3, "n": 5, "partial": True}]
    local_host(session).forgetful = restarted
    push(session, range(5, 8))
    assert len(session.results("near")) == 1, "readings alone demand nothing"
    alarm(session, 7, 2, 4)
    alarm(session, 7, 3, 3)
    early = [{"id": 2, "segment": 4, "n": 8}, {"id": 1, "segment": 3, "n": 8}, {"id": 3, "segment": 3, "n": 8}]
    got = [{**row, "partial": False} for row in session.results("near")[1:] if row["partial"]]
    assert sorted(map(str, got)) == sorted(str({**row, "partial": False}) for row in early)
    push(session, range(8, 11))
    alarm(session, 11, 4, 8)
    session.drain()
    final = [row for row in session.results("near") if not row["partial"]]
    expected = [(number, segment, n) for number, segment in ((1, 3), (2, 4), (3, 3), (4, 8)) for n in (10, 1)]
    assert sorted(tuple(row.values())[:3] for row in final) == sorted(expected), "the same as without early results"


def log_of(session):
    log = local_host(session).intake.deployments.log
    return log.between(0, log.count())


def test_padded_rows_of_an_outer_join_match_no_time(session):
    session.execute("""CREATE QUERY pairs AS SELECT a.segment, b.at AS other FROM detectors [RANGE 5 SECONDS] AS a
        LEFT JOIN detectors [NOW] AS b ON a.segment = b.segment AND b.speed > 100 INTO MEMORY""")
    session.execute("ASSUME pairs WHERE other < TIMESTAMP '2026-01-01 00:01:00'")
    push(session, range(10), range(2))
    session.drain()
    assert session.results("pairs") == [{"segment": segment, "other": None} for segment in (0, 1)] * 10


def test_a_duration_counts_in_the_time_of_the_streams_from_their_first_tuple_on(session):
    session.execute("CREATE STREAM other (at TIMESTAMP, segment INT) TIMESTAMP BY at SKEW 20 SECONDS FROM MEMORY")
    session.execute(
        "CREATE QUERY whole AS SELECT segment, count(*) AS n FROM other [RANGE 30 SECONDS] GROUP BY segment"
    )
    with pytest.raises(NotSupported, match="no tuple of whole has come yet"):
        session.execute("ASSUME whole WHERE segment = 1 FOR 1 MINUTE")
    session.push("other", [{"at": EPOCH, "segment": 1}])
    local_host(session).step()
    session.execute("ASSUME whole WHERE segment = 1 FOR 1 MINUTE")
    (sent,) = session._running().feedback
    assert sent.until == (1_767_225_600 + 60) * SECOND


@pytest.mark.parametrize("condition", ["segment = 1", "n >= 8"])
def test_an_assumption_holds_after_a_stop_and_a_start(session, condition):
    push(session, range(11), range(3))
    session.execute(f"ASSUME speeds WHERE {condition} FOR 1 HOUR")
    push(session, range(11, 21), range(3))
    session.execute("STOP QUERY speeds")
    push(session, range(21, 31), range(3))
    session.execute("START QUERY speeds")
    push(session, range(31, 61), range(3))
    session.drain()
    assert ended(session, 50) == ([0, 2] if condition == "segment = 1" else [])


def test_of_what_is_desired_the_highest_priority_comes_first(session):
    session.execute("DESIRE speeds WHERE segment = 5 PRIORITY 2; DESIRE speeds WHERE segment = 7")
    session.execute("DESIRE speeds WHERE segment = 3 PRIORITY 1; DESIRE speeds WHERE segment = 4 PRIORITY 1")
    push(session, range(11))
    assert [row["segment"] for row in session.results("speeds")][:3] == [5, 4, 7]
    assert segments(session) == list(range(9))
    with pytest.raises(SyntaxFault, match="from 0 to 9, not 10"):
        session.execute("DESIRE speeds WHERE segment = 3 PRIORITY 10")


def test_what_is_desired_comes_first(session):
    session.execute("DESIRE speeds WHERE segment = 7")
    push(session, range(11))
    assert session.results("speeds")[0]["segment"] == 7
    assert segments(session) == list(range(9))


@pytest.mark.parametrize(
    "text",
    [
        """AS SELECT segment, count(*) AS n, window_end AS at FROM detectors [RANGE 2 SECONDS] GROUP BY segment
           ORDER BY rowtime""",
        "WITH (ordered) AS SELECT segment, at FROM detectors",
        "WITH (ordered merge) AS SELECT segment, at FROM detectors UNION SELECT segment, at FROM detectors",
        "AS SELECT segment, at FROM detectors LIMIT 40",
    ],
)
def test_a_desire_does_not_change_an_order_that_a_query_promises(session, text):
    session.execute(f"CREATE QUERY sorted {text} INTO MEMORY; DESIRE sorted WHERE segment = 2")
    push(session, range(11), range(3))
    session.execute("DESIRE sorted WHERE segment = 1")
    push(session, range(11, 21), range(3))
    session.drain()
    times = [row["at"] for row in session.results("sorted")]
    assert len(times) > 30
    assert times == sorted(times)


@pytest.mark.parametrize("buckets", [1, 3])
def test_groups_that_operators_find_reach_the_ingest_by_the_command_log(buckets):
    clock = VirtualClock(0)
    with Session(host="local", buckets=buckets) as session:
        local_host(session).clock = clock
        session.execute("CREATE STREAM bids (at TIMESTAMP, auction INT) TIMESTAMP BY at FROM MEMORY")
        session.execute(
            "CREATE QUERY counts AS SELECT auction, count(*) AS n FROM bids [RANGE 1 HOUR] GROUP BY auction INTO MEMORY"
        )
        session.execute("ASSUME counts WHERE n >= 5 AND rowtime <= TIMESTAMP '2026-01-01 01:00:00'")
        for second in range(40):
            auctions = range(second % 2, 8, 1 + second % 2)
            session.push(
                "bids", [{"at": EPOCH + dt.timedelta(seconds=second), "auction": auction} for auction in auctions]
            )
            local_host(session).step()
            clock.advance(SECOND)
        assert session._running().relays, "the driver has told the ingest"
        before = aggregated(session)
        session.push("bids", [{"at": EPOCH + dt.timedelta(seconds=40), "auction": auction} for auction in (1, 1, 1, 9)])
        local_host(session).step()
        assert aggregated(session) - before == 1, "only the auction that is still needed is aggregated"
        session.drain()
        assert session.results("counts") == [{"auction": 9, "n": 1}]


def aggregated(session):
    return sum(
        seen.tuples_in for name, seen in session.statistics().vertices.items() if name.startswith("partialaggregate")
    )


def test_a_restarted_deployment_goes_on_with_its_guards(tmp_path):
    from headrace.hosts.local import LocalDeployment

    with Session(tmp_path, host="local", buckets=2) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = True
        session.execute(
            "CREATE STREAM detectors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;" + AVERAGES
        )
        push(session, range(11))
        session.execute("ASSUME speeds WHERE segment <> 3 FOR 30 SECONDS")
        push(session, range(11, 31))
        assert segments(session, 20) == [3]
        session.drain()
    assert segments(session, 20) == [3]


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("ASSUME speed WHERE segment = 3 FOR 1 MINUTE", NameFault, "no running query 'speed'"),
        ("ASSUME speeds WHERE segments = 3 FOR 1 MINUTE", NameFault, "column 'segments' does not exist"),
        ("ASSUME speeds WHERE segment = 3", NotSupported, "nothing in .* ends with time"),
        ("ASSUME speeds WHERE segment + n = 3 FOR 1 MINUTE", NotSupported, "feedback cannot use the condition"),
        ("ASSUME speeds WHERE segment = 3 OR n = 2 FOR 1 MINUTE", NotSupported, "feedback cannot use the condition"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(session, text, error, complaint):
    with pytest.raises(error, match=complaint) as refused:
        session.execute(text)
    assert "^" in refused.value.render(text)


@pytest.mark.parametrize("assumed", [False, True])
def test_histories_of_an_event_that_nobody_needs_are_not_sent_and_the_others_are_whole(assumed):
    with Session(host="local", buckets=3) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (at TIMESTAMP, k INT, {name}v INT) TIMESTAMP BY at FROM MEMORY")
        session.execute("CREATE EVENT pair AS a SEQUENCE b WITHIN 9 SECONDS WHERE a.k = b.k CONTEXT RECENT")
        session.execute("CREATE QUERY pairs AS SELECT k, av, bv, rowtime AS ended FROM pair INTO MEMORY")

        def happen(seconds):
            for name, step in (("a", 0), ("b", 0.5)):
                rows = [(EPOCH + dt.timedelta(seconds=second + step), key) for second in seconds for key in range(4)]
                session.push(name, [{"at": at, "k": key, f"{name}v": at.second} for at, key in rows])
            while local_host(session).step():
                pass

        happen(range(10))
        if assumed:
            session.execute("ASSUME pairs WHERE k > 0 FOR 1 HOUR")
        happen(range(10, 30))
        session.drain()
        needed = sorted((row["av"], row["bv"]) for row in session.results("pairs") if row["k"] == 0)
        others = [
            row for row in session.results("pairs") if row["k"] > 0 and row["ended"] > EPOCH + dt.timedelta(seconds=11)
        ]
        met = sum(seen.tuples_in for name, seen in session.statistics().vertices.items() if name.startswith("detect"))
    assert needed == [(second, second) for second in range(30)]
    assert bool(others) == (not assumed)
    assert met <= 2 * 4 * 10 + 2 * 20 if assumed else met == 2 * 4 * 30
