"""Shedding by hand, through a session: what is reported as lost is what is lost."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.analysis.shedding.decision import ActiveSheds, decide
from headrace.analysis.shedding.from_running import shed_options
from headrace.commands.command import ShedAt, UseShedders
from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.commands.shedders_in_force import sheddable, shedders_in
from headrace.errors import QueryError
from headrace.graph.losses import creating_arcs
from headrace.hosts.local import LocalDeployment
from headrace.session.forecast import Stated
from headrace.session.outcome import Listing, Message
from headrace.session.session import Session
from headrace.testing.clock import VirtualClock
from headrace.worker.wire import Row

STREAM = "CREATE STREAM t (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at SKEW 1 SECONDS FROM MEMORY;"
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "run", host="local", buckets=3) as opened:
        opened.execute(STREAM)
        yield opened


def feed(session: Session, start: int, count: int = 400) -> None:
    rows = [
        {"at": START + datetime.timedelta(milliseconds=i), "k": i % 7, "v": float(i * 37 % 1000)}
        for i in range(start, start + count)
    ]
    session.push("t", rows)
    assert isinstance(session.deployment, LocalDeployment)
    session.deployment.step()


def lost(session: Session, query: str) -> int:
    return session.statistics().queries[query].shed


@pytest.mark.parametrize(
    "select",
    [
        "SELECT k, v FROM t",
        "SELECT k, v FROM t WHERE v >= 0",
        "SELECT k, v FROM t [RANGE 1 SECOND SLIDE TUPLE] GROUP BY k, v",
        "SELECT DISTINCT k, v, at FROM t [NOW]",
    ],
    ids=["a scan", "a filter", "a window per tuple", "distinct"],
)
def test_what_is_counted_as_dropped_is_what_is_missing(session: Session, select: str) -> None:
    session.execute(
        f"CREATE QUERY q WITH (error 0.5) AS {select} INTO MEMORY; CREATE QUERY whole AS SELECT at FROM t INTO MEMORY"
    )
    feed(session, 0)
    session.execute("ALTER QUERY q SET shedding = 0.25")
    for start in range(400, 2000, 400):
        feed(session, start)
    session.execute("ALTER QUERY q SET shedding = 'off'")
    feed(session, 2000)
    session.drain()
    assert len(session.results("whole")) == 2400
    assert lost(session, "whole") == 0
    assert len(session.results("q")) == 2400 - lost(session, "q")
    assert 300 < lost(session, "q") < 500  # a quarter of 1600, within 5 standard deviations


def test_a_query_that_shares_an_operator_loses_nothing_of_what_another_sheds(session: Session) -> None:
    session.execute(
        """CREATE QUERY q WITH (error 0.5, shed SMALLEST v) AS SELECT k, v FROM t WHERE v >= 0 INTO MEMORY;
        CREATE QUERY other AS SELECT k, v FROM t WHERE v >= 0 INTO MEMORY;
        ALTER QUERY q SET shedding = 0.5"""
    )
    feed(session, 0)
    session.drain()
    (arc,) = session.statistics().shed
    assert arc[0].startswith("output-")
    assert len(session.results("other")) == 400
    assert len(session.results("q")) == 400 - lost(session, "q") < 250


def test_of_two_that_share_an_arc_the_one_that_bears_least_counts(session: Session) -> None:
    session.execute(
        """CREATE QUERY much WITH (error 0.5) AS SELECT k, v FROM t WHERE v >= 0 INTO MEMORY;
        CREATE QUERY little WITH (error 0.5) AS SELECT k FROM t WHERE v >= 0 INTO MEMORY;
        ALTER QUERY much SET shedding = 0.5; ALTER QUERY little SET shedding = 0.2"""
    )
    for start in range(0, 4000, 400):
        feed(session, start)
    session.drain()
    shares = {name.split("-")[0]: seen.share for (name, _), seen in session.statistics().shed.items()}
    assert shares["filter"] == 0.2
    assert max(shares.values()) == pytest.approx(1 - 0.5 / 0.8)
    assert len(session.results("much")) == 4000 - lost(session, "much")
    assert len(session.results("little")) == 4000 - lost(session, "little")
    assert 1800 < len(session.results("much")) < 2200
    assert 3050 < len(session.results("little")) < 3350


@pytest.mark.slow
def test_a_restart_from_saved_state_in_every_micro_batch_drops_the_same_tuples(tmp_path: Path) -> None:
    found = []
    for forgetful in (False, True):
        with Session(tmp_path / str(forgetful), host="local", buckets=2) as session:
            assert isinstance(session.deployment, LocalDeployment)
            session.deployment.forgetful, session.deployment.clock = forgetful, VirtualClock()
            session.execute(STREAM)
            session.execute(
                """CREATE QUERY q WITH (error 0.6, shed OUTLIER v 500) AS SELECT x.at, x.k, x.v
                FROM t [RANGE 1 SECOND] AS x, t [NOW] AS y
                WHERE x.k = y.k AND x.at = y.at INTO MEMORY; ALTER QUERY q SET shedding = 0.3"""
            )
            for start in range(0, 800, 20):
                feed(session, start, 20)
            session.drain()
            found.append((sorted(tuple(row.values()) for row in session.results("q")), lost(session, "q")))
    assert found[0] == found[1]
    assert 0 < found[0][1] < 800


def test_a_share_above_the_error_is_refused(session: Session) -> None:
    session.execute(
        "CREATE QUERY q WITH (error 0.1) AS SELECT k FROM t INTO MEMORY; "
        "CREATE QUERY strict AS SELECT v FROM t INTO MEMORY"
    )
    with pytest.raises(QueryError, match=r"declares an error of 0.1, not 0.2"):
        session.execute("ALTER QUERY q SET shedding = 0.2")
    with pytest.raises(QueryError, match="declares no error"):
        session.execute("ALTER QUERY strict SET shedding = 0.2")
    session.execute(
        "CREATE QUERY pairs WITH (error 0.19) AS SELECT x.k FROM t [RANGE 1 SECOND] AS x, t [NOW] AS y "
        "WHERE x.k = y.k INTO MEMORY"
    )
    with pytest.raises(
        QueryError, match=r"declares an error of 0.19, not 0.278, the result of a share of 0.15 of each of 2 inputs"
    ):
        session.execute("ALTER QUERY pairs SET shedding = 0.15")
    session.execute("ALTER QUERY pairs SET shedding = 0.1; ALTER QUERY pairs SET shedding = 'auto'")
    session.execute(
        "ALTER QUERY strict SET shedding = 'off'; ALTER QUERY q SET shedding = 0.1; ALTER QUERY q SET shedding = 'auto'"
    )
    assert list(session._running().shed_shares.values()) == [0.0]


def test_a_plan_of_what_runs_leads_to_shedders_that_keep_what_queries_bear(session: Session) -> None:
    session.execute(
        """CREATE QUERY some WITH (error 0.3) AS SELECT k, v FROM t WHERE v >= 0 INTO MEMORY;
        CREATE QUERY none AS SELECT k, v FROM t WHERE v >= 0 INTO MEMORY;
        CREATE QUERY pairs WITH (error 0.19) AS SELECT x.k FROM t [RANGE 1 SECOND] AS x, t [NOW] AS y WHERE x.k = y.k
          INTO MEMORY"""
    )
    running = session._running()
    facts = Stated(
        {"t": 1000.0}, services={"scan": 1e-5, "filter": 1e-4, "join": 1e-3}, selectivities={"join": 1.0}
    ).facts(session.catalog.streams())
    found = shed_options(running, facts)
    # read once, filtered once for two queries, and given to both sides of the join
    assert found.load == pytest.approx(0.01 + 0.1 + 2.0, rel=0.02)
    assert {place.label.split("-")[0] for place in found.places} == {
        "join"
    }  # nothing is freed behind the filter that two share
    assert all(
        place.error == pytest.approx(0.1) for place in found.places
    )  # of a pair both must be there: 1 - 0.9 * 0.9
    plan = decide(ActiveSheds(), found.load, found.places)
    assert plan.shortfall > 0
    session.deployment.send(UseShedders(found.shedders(plan, running)))
    for start in range(0, 2000, 400):
        feed(session, start)
    session.drain()
    assert {arc[0].split("-")[0] for arc in session.statistics().shed} == {"join"}
    assert 0 < lost(session, "pairs") < 0.2 * 4000
    assert len(session.results("some")) == len(session.results("none")) == 2000


def test_a_query_set_by_hand_is_left_alone_by_what_promises_need(session: Session) -> None:
    session.execute("CREATE QUERY q WITH (error 0.5) AS SELECT k FROM t WHERE v >= 0 INTO MEMORY")
    (reader,) = [vertex.id for vertex in session._running().queries[0].graph if vertex.id.startswith("filter")]
    session.deployment.send(UseShedders((ShedAt(reader, 0, 0.5, query="q"),)))
    assert shedders_in(session._running())[reader, 0].share == 0.5
    session.execute("ALTER QUERY q SET shedding = 'off'")
    assert not shedders_in(session._running())
    session.execute("ALTER QUERY q SET shedding = 0.125")
    assert shedders_in(session._running())[reader, 0].share == 0.125
    session.execute("ALTER QUERY q SET shedding = 'auto'")
    assert shedders_in(session._running())[reader, 0].share == 0.5
    session.execute("ALTER QUERY q SET shedding = 0.5; ALTER QUERY q SET (error 0.25)")
    assert shedders_in(session._running())[reader, 0].share == 0.25


def test_what_was_shed_can_be_queried_like_a_stream(session: Session) -> None:
    session.execute(
        """CREATE QUERY q WITH (error 0.5) AS SELECT k, v FROM t WHERE v >= 0 INTO MEMORY;
        CREATE QUERY told AS SELECT query, arc, kind, share, seen, dropped, error FROM headrace.shed INTO MEMORY;
        CREATE QUERY sums AS SELECT query, sum(dropped) AS dropped FROM headrace.shed [RANGE 3650 DAYS] GROUP BY query
          INTO MEMORY"""
    )
    feed(session, 0)
    session.execute("ALTER QUERY q SET shedding = 0.25")
    for start in range(400, 2000, 400):
        feed(session, start)
    session.drain()
    rows = session.results("told")
    assert [(row["query"], row["kind"], row["share"], row["seen"]) for row in rows] == [("q", "RANDOM", 0.25, 400)] * 4
    assert sum(row["dropped"] for row in rows) == lost(session, "q") == 2000 - len(session.results("q")) > 0
    assert all(row["error"] == pytest.approx((row["dropped"] / 400 / (400 - row["dropped"])) ** 0.5) for row in rows)
    assert session.results("sums") == [{"query": "q", "dropped": lost(session, "q")}]


def test_a_micro_batch_that_is_delivered_again_tells_what_it_shed_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between its delivery and its commit."""
    session.execute(
        """CREATE QUERY q WITH (error 0.5) AS SELECT k, v FROM t INTO MEMORY;
        CREATE QUERY told AS SELECT query, seen, dropped FROM headrace.shed INTO MEMORY;
          ALTER QUERY q SET shedding = 0.25"""
    )
    deliver = session.deployment.delivery.deliver

    def twice(batch: int, rows: list[Row], running: Running, milliseconds: float | None = None) -> bool:
        deliver(batch, rows, running, milliseconds)
        return deliver(batch, rows, running, milliseconds)

    monkeypatch.setattr(session.deployment.delivery, "deliver", twice)
    feed(session, 0)
    session.drain()
    assert lost(session, "q") == 2 * (
        400 - len(session.results("q"))
    )  # this process has counted it twice, as no restarted one would
    assert sum(row["dropped"] for row in session.results("told")) == 400 - len(session.results("q")) > 0


def test_a_query_is_shed_by_a_column_that_it_does_not_read_itself(session: Session) -> None:
    session.execute(
        """CREATE QUERY q WITH (error 0.5, shed SMALLEST V) AS SELECT k, count(*) AS n FROM t [RANGE 1 HOUR]
        WHERE k > 0 GROUP BY k INTO MEMORY;
        CREATE QUERY plain AS SELECT k, count(*) AS n FROM t [RANGE 1 HOUR] WHERE k > 0 GROUP BY k INTO MEMORY;
          ALTER QUERY q SET shedding = 0.5"""
    )
    feed(session, 0, 1000)
    session.drain()
    (seen,) = session.statistics().shed.values()
    assert (seen.kind, seen.seen, seen.dropped) == ("SMALLEST", 1000, 500)  # the values are 0 to 999, each once
    assert sum(row["n"] for row in session.results("plain")) == 857
    assert sum(row["n"] for row in session.results("q")) == sum(i % 7 > 0 for i in range(1000) if i * 37 % 1000 >= 500)


EVERYWHERE = {
    "a merging union": "WITH (ordered merge, error 1) AS SELECT at, k FROM t UNION ALL SELECT at, k FROM u",
    "a join by rows": "WITH (error 1) AS SELECT x.k, x.at FROM t [ROWS 5] AS x, u [ROWS 5] AS y WHERE x.k = y.k",
    "a join of joins": "WITH (error 1) AS SELECT x.at FROM t [RANGE 1 SECOND] AS x, u [RANGE 1 SECOND] AS y, "
    "t [NOW] AS z WHERE x.k = y.k AND y.k = z.k",
    "a sequence": "WITH (error 1) AS SELECT a.at, b.k FROM t [RANGE 1 SECOND] AS a JOIN u AS b ON a.k = b.k "
    "FOLLOWING RECENT",
    "an aggregate by other keys": """WITH (error 1) AS SELECT n, count(*) AS c
        FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k) [RANGE 2 SECONDS] GROUP BY n""",
}


@pytest.mark.parametrize("share", [1e-15, 1.0], ids=["nothing", "everything"])
def test_shedders_on_every_arc_hold_nobody_up(session: Session, share: float) -> None:
    """The results are the same if hardly anything is dropped; if everything is, the deployment still ends."""
    session.execute("CREATE STREAM u (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 1 SECONDS FROM MEMORY")
    for number, query in enumerate(EVERYWHERE.values()):
        session.execute(f"CREATE QUERY q{number} {query} INTO MEMORY")
    running = session._running()
    plain = {}
    whole = whole_of(running)
    for dropped in (0.0, share):
        with Session(session.directory.parent / f"share{dropped}", host="local", buckets=2) as other:
            for command in running.queries:
                other.deployment.send(command)
            arcs = sorted(sheddable(whole)) if dropped else []
            other.deployment.send(UseShedders(tuple(ShedAt(*arc, dropped) for arc in arcs)))
            other.catalog = session.catalog
            other.start()
            for start in range(0, 60, 20):
                times = [START + datetime.timedelta(milliseconds=i * 100) for i in range(start, start + 20)]
                other.push("u", [{"at": at, "k": i % 3} for i, at in enumerate(times)])
                other.push("t", [{"at": at, "k": i % 3, "v": 1.0} for i, at in enumerate(times)])
                assert isinstance(other.deployment, LocalDeployment)
                other.deployment.step()
            other.drain(60)
            found = {
                name: sorted(str(row) for row in other.results(f"q{number}")) for number, name in enumerate(EVERYWHERE)
            }
            plain = plain or found
            assert dropped == 0 or other.statistics().shed
    for name in EVERYWHERE:
        assert plain[name], name
        assert found[name] == (plain[name] if share < 1 else []), name


def test_nothing_is_shed_where_a_lost_tuple_creates_results(tmp_path: Path) -> None:
    queries = {
        "missing": "SELECT * FROM silence",
        "lonely": "SELECT x.k, x.at FROM t [RANGE 1 SECOND] AS x LEFT JOIN u [RANGE 1 SECOND] AS y ON x.k = y.k "
        "WHERE y.k IS NULL",
    }
    rows: dict[tuple[str, bool], Counter[str]] = {}
    for sheds in (False, True):
        with Session(tmp_path / str(sheds), host="local", buckets=2) as session:
            session.execute(
                f"""{STREAM} CREATE STREAM u (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 1 SECONDS FROM MEMORY;
                CREATE EVENT silence AS NOT (u) [t, '50 ms'] WHERE t.k = u.k CONTEXT UNRESTRICTED"""
            )
            for name, select in queries.items():
                session.execute(f"CREATE QUERY {name} WITH (error 0.6) AS {select} INTO MEMORY")
                if sheds:
                    session.execute(f"ALTER QUERY {name} SET shedding = 0.3")
            for start in range(0, 2000, 400):
                times = [START + datetime.timedelta(milliseconds=i) for i in range(start, start + 400)]
                session.push("u", [{"at": at, "k": i % 6} for i, at in enumerate(times, start) if i % 900 < 700])
                feed(session, start)
            session.drain()
            for name in queries:
                rows[name, sheds] = Counter(str(row) for row in session.results(name))
                assert sheds == (lost(session, name) > 0)
            (listing,) = session.execute("SHOW SHEDDING")
    for name in queries:
        assert rows[name, True] < rows[name, False]
    assert isinstance(listing, Listing)
    never = [(row[0], row[1]) for row in listing.rows if row[2] == "never"]
    assert [query for query, _ in never] == list(queries)
    assert all("input" in place for _, place in never)


@pytest.mark.parametrize(
    ("select", "operator"),
    [
        ("SELECT k, v FROM t GROUP BY k HAVING RSUPPRESS(10)", "suppress"),
        ("SELECT k, v FROM t LIMIT 10", "first 10"),
        ("SELECT DISTINCT k FROM t [RANGE 1 SECOND]", "distinct"),
        ("SELECT k, count(*) AS n FROM t [SESSION 1 SECOND] GROUP BY k", "session"),
        ("SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k HAVING count(*) < 3", "filter"),
        ("SELECT k, sum(v) AS s FROM t [RANGE 1 SECOND] GROUP BY k HAVING NOT max(v) >= 3", "filter"),
        ("SELECT k, min(v) AS s FROM t [RANGE 1 SECOND SLIDE TUPLE] GROUP BY k HAVING min(v) > 3", "filter"),
        ("SELECT k FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k) WHERE n = 3", "filter"),
        ("SELECT k FROM t [RANGE 1 SECOND] GROUP BY k HAVING 2 * count(*) < 6", "filter"),
        ("SELECT k FROM t [RANGE 1 SECOND] GROUP BY k HAVING -count(*) > -3", "filter"),
        ("SELECT k FROM t [RANGE 1 SECOND] GROUP BY k HAVING count(*) % 2 = 0", "filter"),
        ("SELECT k FROM t [RANGE 1 SECOND] GROUP BY k HAVING approx_count_distinct(v) < 3", "filter"),
        ("SELECT k FROM t [RANGE 1 SECOND] GROUP BY k HAVING bool_and(v > 3)", "filter"),
        ("SELECT k FROM t [PARTITION BY k ROWS 5] GROUP BY k HAVING max(v) > 3", "filter"),
        (
            "SELECT k FROM (SELECT k, CASE WHEN count(*) < 3 THEN 'few' END AS size FROM t [RANGE 1 SECOND] "
            "GROUP BY k) WHERE size = 'few'",
            "filter",
        ),
        (
            "SELECT min(n) AS n FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k) [RANGE 2 SECONDS] "
            "HAVING min(n) < 3",
            "filter",
        ),
        (
            "SELECT x.k FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k) [NOW] AS x JOIN "
            "(SELECT v, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY v) [NOW] AS y ON x.n = y.n",
            "join",
        ),
        (
            "SELECT k FROM (SELECT k, count(*) AS n FROM t [RANGE 1 DAY] GROUP BY k) AS x JOIN sizes ON x.n = sizes.n",
            "join",
        ),
        (
            "SELECT k FROM (SELECT k, count(*) AS n FROM t [RANGE 1 DAY] GROUP BY k) WHERE n IN (SELECT n FROM sizes)",
            "filter",
        ),
        ("SELECT k FROM t WHERE v < 3 UNION ALL SELECT k FROM t WHERE v > 9 WITH PACE ON rowtime 1 SECOND", "pace"),
    ],
)
def test_a_share_is_refused_where_every_loss_may_create_results(
    session: Session, tmp_path: Path, select: str, operator: str
) -> None:
    (tmp_path / "sizes.csv").write_text("n\n3\n")
    session.execute(f"CREATE TABLE sizes (n BIGINT) FROM FILES (path '{tmp_path / 'sizes.csv'}', format 'csv')")
    session.execute(f"CREATE QUERY q WITH (error 0.5) AS {select} INTO MEMORY")
    with pytest.raises(QueryError, match=f"nothing can be shed for q: .*{operator}"):
        session.execute("ALTER QUERY q SET shedding = 0.1")
    facts = Stated({"t": 1e9}).facts(session.catalog.streams())
    options = shed_options(session._running(), facts)
    shedders = options.shedders(decide(ActiveSheds(), options.load, options.places), session._running())
    assert creating_arcs(whole_of(session._running())).keys().isdisjoint(shedder.arc for shedder in shedders)
    session.execute("ALTER QUERY q SET shedding = 'off'")
    changed, forecast = session.execute("ALTER QUERY q SET (error 0.4); EXPLAIN CAPACITY q")
    for message in (changed, forecast):
        assert isinstance(message, Message)
        assert re.search(f"nothing is shed before '.*{operator}.*', where a loss would create results", message.text)


@pytest.mark.parametrize(
    "condition",
    [
        "count(*) > 3",
        "max(v) >= 3",
        "3 > min(v)",
        "sum(v) < 3",
        "count(*) > 3 OR avg(v) < 3",
        "2 * count(*) > 6",
        "-count(*) < -3",
        "count(*) - 1.5 >= 3",
        "bool_or(v > 3) > FALSE",
        "count(*) FILTER (WHERE v > 3) / count(*) < 0.5",
        "CASE WHEN avg(v) < 3 THEN TRUE ELSE FALSE END",
    ],
)
def test_a_condition_that_a_loss_can_only_fail_may_be_shed(session: Session, condition: str) -> None:
    session.execute(
        f"CREATE QUERY q WITH (error 0.5) AS SELECT k, sum(v) AS s FROM t [RANGE 1 SECOND] GROUP BY k "
        f"HAVING {condition} INTO MEMORY; ALTER QUERY q SET shedding = 0.1"
    )


def test_a_query_that_starts_or_stops_beside_one_that_is_shed_keeps_its_tuples(session: Session) -> None:
    session.execute(
        """CREATE QUERY lax WITH (error 0.5) AS SELECT k FROM t WHERE v >= 0 INTO MEMORY;
        CREATE QUERY f AS SELECT k, count(*) AS n FROM t [RANGE 10 SECONDS] WHERE v >= 0 GROUP BY k INTO MEMORY;
        CREATE QUERY g START ON t AS SELECT k, v FROM t INTO MEMORY"""
    )
    feed(session, 0)
    session.execute("ALTER QUERY lax SET shedding = 0.2; STOP QUERY f")
    feed(session, 400)
    feed(session, 800)
    session.execute("ALTER QUERY lax SET shedding = 'off'; START QUERY f")
    feed(session, 1200)
    session.drain()
    assert sum(row["n"] for row in session.results("f")) == 800
    assert len(session.results("lax")) == 1600 - lost(session, "lax") < 1600


def test_a_new_query_without_an_error_loses_nothing_on_an_arc_that_is_being_shed(session: Session) -> None:
    session.execute("CREATE QUERY q WITH (error 0.5) AS SELECT k FROM t WHERE v >= 0 INTO MEMORY")
    (reader,) = [vertex.id for vertex in session._running().queries[0].graph if vertex.id.startswith("filter")]
    session.deployment.send(UseShedders((ShedAt(reader, 0, 0.5, query="q"),)))
    session.execute("CREATE QUERY strict AS SELECT k FROM t WHERE v >= 0 INTO MEMORY")
    assert not shedders_in(session._running())


@pytest.mark.parametrize("select", ["sum(v) AS s", "avg(v) * count(*) AS s"])
def test_a_sum_of_the_values_by_which_is_shed_loses_no_more_than_the_error(session: Session, select: str) -> None:
    session.execute(
        f"""CREATE QUERY q WITH (error 0.1, shed LARGEST v) AS SELECT {select} FROM t [RANGE 1 HOUR] WHERE k >= 0
          INTO MEMORY; ALTER QUERY q SET shedding = 0.1"""
    )
    skewed = [1000.0 if i % 10 == 0 else float(i % 10) for i in range(2000)]
    for start in range(0, 2000, 400):
        times = [START + datetime.timedelta(milliseconds=i) for i in range(start, start + 400)]
        session.push("t", [{"at": at, "k": 1, "v": skewed[i]} for i, at in enumerate(times, start)])
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.step()
    session.drain()
    (row,) = session.results("q")
    assert 0.9 * sum(skewed) <= row["s"] < sum(skewed)
    assert lost(session, "q") > 0


WINDOWS = ["RANGE 2 SECONDS", "RANGE 4 SECONDS SLIDE 2 SECONDS", "RANGE 4 SECONDS STEP 2 SECONDS"]


@pytest.mark.parametrize("window", WINDOWS)
def test_no_window_loses_more_than_the_error_while_values_drift(session: Session, window: str) -> None:
    session.execute(
        f"""CREATE QUERY q WITH (error 0.4, shed LARGEST v) AS
          SELECT count(*) AS n, sum(v) AS s, window_start, window_end FROM t [{window}] INTO MEMORY;
        ALTER QUERY q SET shedding = 0.4"""
    )
    values = [float(i if i < 2000 else 10 * i if i < 3000 else 5000 - i) for i in range(5000)]
    begin = START.replace(tzinfo=None)
    for start in range(0, 5000, 700):
        times = [(i, START + datetime.timedelta(milliseconds=2 * i)) for i in range(start, min(start + 700, 5000))]
        session.push("t", [{"at": at, "k": 1, "v": values[i]} for i, at in times])
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.step()
    session.drain()
    rows = session.results("q")
    assert len(rows) >= 5
    for row in rows:
        first, end = (
            (row[name] - begin) // datetime.timedelta(milliseconds=2) for name in ("window_start", "window_end")
        )
        whole = values[max(0, first) : end]
        assert row["n"] >= 0.6 * len(whole)
        assert row["s"] >= 0.6 * sum(whole) * (1 - 1e-9)
    assert lost(session, "q") > 0.25 * 5000


def test_a_place_whose_query_was_dropped_has_no_internal_name(session: Session) -> None:
    session.execute("CREATE QUERY gone WITH (error 0.5) AS SELECT k FROM t INTO MEMORY")
    session.execute("CREATE QUERY stays AS SELECT v FROM t INTO MEMORY; ALTER QUERY gone SET shedding = 0.3")
    feed(session, 0)
    session.execute("DROP QUERY gone")
    feed(session, 400)
    (listing,) = session.execute("SHOW SHEDDING")
    assert isinstance(listing, Listing)
    assert [row[:3] for row in listing.rows] == [("gone", "no longer runs", "ended")]
