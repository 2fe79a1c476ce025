"""What a query that is created sees: what is read from its first micro-batch on, whatever runs or ran beside it."""

import datetime as dt

import pytest

from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;"
COUNTS = "SELECT k, count(*) AS n, window_end FROM s [RANGE 10 SECONDS] GROUP BY k INTO MEMORY"
EXCHANGED = """SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k) AS c
    [RANGE 20 SECONDS] GROUP BY n INTO MEMORY"""


@pytest.fixture(params=[1, 2], ids=["one bucket", "two buckets"])
def session(request):
    with Session(host="local", buckets=request.param) as made:
        made.execute(STREAM)
        yield made


def settle(session):
    while local_host(session).step():
        pass


def push(session, *seconds, keys=(1, 2)):
    rows = [{"at": EPOCH + dt.timedelta(seconds=second), "k": k, "v": k} for second in seconds for k in keys]
    session.push("s", rows)
    settle(session)


def counts(session, query="q"):
    return sorted((row["window_end"].second, row["k"], row["n"]) for row in session.results(query))


WHOLE = [(10, 1, 5), (10, 2, 5), (20, 1, 1), (20, 2, 1)]


@pytest.mark.parametrize("neighbor", [COUNTS, COUNTS.replace("count(*)", "sum(v)"), EXCHANGED], ids=str)
@pytest.mark.parametrize("assumed", [False, True])
def test_the_first_window_of_a_query_does_not_depend_on_its_neighbors(session, neighbor, assumed):
    session.execute(f"CREATE QUERY old AS {neighbor}")
    push(session, *range(5))
    if assumed:
        session.execute("ASSUME old WHERE n < 3 FOR 1 HOUR")
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, *range(5, 10), 10)
    session.drain()
    assert counts(session) == WHOLE


@pytest.mark.parametrize("assumed", [False, True])
def test_a_later_reader_of_a_query_sees_what_that_one_delivers_unless_something_is_missing_there(session, assumed):
    session.execute(f"CREATE QUERY old AS {COUNTS}")
    push(session, *range(5))
    if assumed:
        session.execute("ASSUME old WHERE k = 1 FOR 1 HOUR")
    session.execute("CREATE QUERY q AS SELECT k, n, window_end FROM old INTO MEMORY")
    push(session, *range(5, 10), 10)
    session.drain()
    assert counts(session) == (WHOLE if assumed else [(10, 1, 10), (10, 2, 10), (20, 1, 1), (20, 2, 1)])


def test_queries_of_one_text_share_their_state(session):
    session.execute(f"CREATE QUERY p AS {COUNTS}; CREATE QUERY q AS {COUNTS}")
    push(session, *range(10), 10)
    names = [name for name in session.statistics().vertices if name.startswith("paneaggregate")]
    assert len(names) == 1
    session.execute(f"CREATE QUERY r AS {COUNTS}")
    push(session, 11)
    names = [name for name in session.statistics().vertices if name.startswith("paneaggregate")]
    assert len(names) == 2
    partials = {name.partition("@")[0] for name in session.statistics().vertices if name.startswith("partialaggregate")}
    assert len(partials) == 1, "what keeps no state is shared with later queries as well"


@pytest.mark.parametrize("between", [False, True])
def test_feedback_does_not_outlive_a_query(session, between):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, 0)
    session.execute("ASSUME q WHERE k = 1 FOR 1 HOUR")
    push(session, 1)
    session.execute(f"DROP QUERY q; CREATE QUERY q AS {COUNTS}")
    if between:
        settle(session)
    push(session, *range(5, 10), 10)
    session.drain()
    assert counts(session) == WHOLE


def test_feedback_of_a_query_without_state_does_not_outlive_it(session):
    session.execute("CREATE QUERY q AS SELECT k, v FROM s INTO MEMORY")
    push(session, 0)
    session.execute("ASSUME q WHERE k = 1 FOR 1 HOUR")
    push(session, 1)
    session.execute("DROP QUERY q; CREATE QUERY q AS SELECT k, v FROM s INTO MEMORY")
    push(session, 2)
    assert sorted(row["k"] for row in session.results("q")) == [1, 1, 2, 2, 2], "one was left out, before"


def test_groups_that_were_found_for_a_query_do_not_outlive_it(session):
    text = "SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"
    session.execute(f"CREATE QUERY q AS {text}")
    session.execute("ASSUME q WHERE n >= 2 AND rowtime <= TIMESTAMP '2026-01-01 01:00:00'")
    for second in range(5):
        push(session, second)
    assert session._running().relays, "the ingest leaves them out"
    session.execute(f"DROP QUERY q; CREATE QUERY q AS {text}")
    push(session, *range(5, 16))
    session.drain()
    assert sorted((row["k"], row["n"]) for row in session.results("q")) == [(1, 11), (2, 11)]


@pytest.mark.parametrize("columns", ["k, v", "v AS k, k AS v", "CAST(k AS STRING) AS k, v"])
def test_a_replaced_query_is_told_nothing_of_what_its_predecessor_was(session, columns):
    session.execute("CREATE QUERY q AS SELECT k, v FROM s INTO MEMORY")
    push(session, 0)
    session.execute("ASSUME q WHERE k = 1 FOR 1 HOUR; DESIRE q WHERE k = 2")
    push(session, 1)
    session.execute(f"CREATE OR REPLACE QUERY q AS SELECT {columns}, at FROM s INTO MEMORY")
    push(session, 2)
    assert sorted(int(row["k"]) for row in session.results("q") if "at" in row) == [1, 2]
    assert session._running().feedback == ()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("DROP QUERY q; CREATE QUERY q AS ", [(1, 102)]),
        ("CREATE OR REPLACE QUERY q AS ", [(1, 101), (1, 102), (10, 102)]),
    ],
)
def test_pages_between_two_operators_reach_a_query_in_the_place_of_theirs_but_not_another(session, text, seen):
    session.execute(f"CREATE QUERY q AS {EXCHANGED}")
    push(session, *range(10))
    session.push("s", [{"at": EPOCH + dt.timedelta(seconds=10), "k": 1, "v": 1}])
    local_host(session).step()  # the first windows are between their operators
    session.execute(f"{text} {EXCHANGED.replace('AS m', '+ 100 AS m')}")
    push(session, 30)
    session.drain()
    assert sorted((row["n"], row["m"]) for row in session.results("q")) == seen


REPLACED = COUNTS.replace("count(*) AS n", "count(*) + 100 AS n")


def test_a_query_in_the_place_of_another_goes_on_with_what_computes_the_same(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}; CREATE QUERY beside AS {COUNTS}")
    push(session, *range(5))
    session.execute(f"CREATE OR REPLACE QUERY q AS {REPLACED}")
    push(session, *range(5, 10), 10)
    session.drain()
    assert counts(session) == [(10, 1, 110), (10, 2, 110), (20, 1, 101), (20, 2, 101)]
    assert counts(session, "beside") == [(10, 1, 10), (10, 2, 10), (20, 1, 1), (20, 2, 1)]


def test_a_query_in_the_place_of_another_does_not_take_over_the_state_of_a_third(session):
    positive = COUNTS.replace("GROUP BY", "WHERE v > 0 GROUP BY")
    session.execute(f"CREATE QUERY q AS {COUNTS}; CREATE QUERY third AS {positive}")
    push(session, *range(5))
    session.execute(f"CREATE OR REPLACE QUERY q AS {positive}")
    push(session, *range(5, 10), 10)
    session.drain()
    assert counts(session) == WHOLE


def test_a_query_in_the_place_of_one_with_an_assumption_begins_anew_until_that_has_ended(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, 0)
    session.execute("ASSUME q WHERE k = 1 AND window_end <= TIMESTAMP '2026-01-01 00:00:10'")
    push(session, 1)
    session.execute(f"CREATE OR REPLACE QUERY q AS {REPLACED}")
    push(session, *range(2, 10), 10)
    session.execute("ASSUME q WHERE k = 1 AND window_end <= TIMESTAMP '2026-01-01 00:00:20'")
    push(session, *range(11, 21))
    session.execute(f"CREATE OR REPLACE QUERY q AS {COUNTS}")
    push(session, *range(21, 30), 30)
    session.drain()
    assert counts(session) == [
        (10, 1, 108),
        (10, 2, 108),
        (20, 2, 110),
        (30, 1, 10),
        (30, 2, 10),
        (40, 1, 1),
        (40, 2, 1),
    ]


def test_a_stream_that_no_query_reads_waits_where_it_is(session):
    session.execute(
        f"CREATE STREAM other (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY; CREATE QUERY q AS {COUNTS}"
    )
    session.execute("CREATE QUERY beside AS SELECT k FROM other INTO MEMORY")
    push(session, *range(5))
    session.execute("DROP QUERY q")
    settle(session)
    push(session, *range(5, 8))
    session.push("other", [{"at": EPOCH, "k": 1}])
    settle(session)
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, *range(8, 10), 10)
    session.drain()
    assert counts(session) == WHOLE
    assert session.statistics().streams["s"].late == 0
    assert session.results("beside") == [{"k": 1}]


@pytest.mark.parametrize("source", ["FILES", "GENERATOR"])
def test_streams_of_other_sources_wait_too(tmp_path, source):
    def write(number, *seconds):
        lines = [f"{EPOCH + dt.timedelta(seconds=second)},1,1\n" for second in seconds]
        (tmp_path / f"{number}.csv").write_text("".join(["at,k,v\n", *lines]))

    clauses = {
        "FILES": f"FROM FILES (path '{tmp_path}', format 'csv')",
        "GENERATOR": "FROM GENERATOR (rate 1, rows 30, start '2026-01-01 00:00:00', col.k 'constant(1)')",
    }
    write(0, *range(10))
    with Session(host="local") as session:
        clock = local_host(session).clock = VirtualClock(1_767_225_600 * SECOND)
        session.execute(f"CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at {clauses[source]}")
        text = "CREATE QUERY q AS SELECT at FROM s INTO MEMORY"
        session.execute(text)
        settle(session)
        clock.advance(10 * SECOND)
        settle(session)
        first = {row["at"] for row in session.results("q")}
        session.execute(
            "DROP QUERY q; CREATE STREAM m (k INT) FROM MEMORY; CREATE QUERY p AS SELECT k FROM m INTO MEMORY"
        )
        settle(session)
        write(1, *range(10, 20))
        clock.advance(10 * SECOND)
        settle(session)
        session.execute(text)
        write(2, *range(20, 30))
        clock.advance(10 * SECOND)
        settle(session)
        assert len(first) > 5
        later = [row["at"] for row in session.results("q")]
        assert len(later) == len(set(later)) == 30 - len(first), "each of the others once"
        assert first.isdisjoint(later)
        assert session.statistics().streams["s"].late == 0


def test_a_stream_of_the_same_name_with_another_source_begins_at_its_beginning(tmp_path):
    for folder, day in (("a", 1), ("b", 1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.csv").write_text(f"at,k\n2026-01-0{day} 00:00:0{9 if folder == 'a' else 1},1\n")
    with Session(host="local") as session:
        for folder in "ab":
            source = f"FROM FILES (path '{tmp_path / folder}', format 'csv')"
            session.execute(f"CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at {source}")
            session.execute("CREATE QUERY q AS SELECT at FROM s INTO MEMORY")
            settle(session)
            assert [row["at"].second for row in session.results("q")][-1] == (9 if folder == "a" else 1)
            session.execute("DROP QUERY q; DROP STREAM s")
            settle(session)
        assert session.statistics().streams["s"].late == 0


def test_a_later_reader_of_an_assumed_ordered_union_gets_all(session):
    session.execute("CREATE STREAM t (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY")
    text = "WITH (ordered merge) AS SELECT k, at FROM s UNION SELECT k, at FROM t INTO MEMORY"
    session.execute(f"CREATE QUERY old {text}")

    def both(*seconds):
        rows = [{"at": EPOCH + dt.timedelta(seconds=second), "k": 1, "v": 1} for second in seconds]
        session.push("s", rows)
        session.push("t", rows)
        settle(session)

    both(*range(10))
    session.execute("ASSUME old WHERE rowtime < TIMESTAMP '2026-01-01 00:00:40'")
    both(*range(10, 12))
    session.execute(f"CREATE QUERY q {text}")
    both(*range(12, 52))
    session.drain()
    assert len(session.results("q")) == 80


def test_a_disabled_rule_keeps_its_state(session):
    session.execute("CREATE EVENT twice AS TIMES (2, s) CONTEXT CHRONICLE; CREATE SINK out INTO MEMORY")
    session.execute("CREATE RULE r ON twice DO INSERT INTO out")
    incarnation = session._running().queries[0].incarnation
    session.execute("DISABLE RULE r")
    session.execute("ENABLE RULE r")
    assert session._running().queries[0].incarnation == incarnation > 0


def test_queries_that_share_a_window_and_are_stopped_at_once_both_deliver_it(session):
    session.execute(f"CREATE QUERY p AS {COUNTS}; CREATE QUERY q AS {COUNTS}")
    push(session, *range(5))
    session.execute("STOP QUERY p; STOP QUERY q")
    settle(session)
    assert counts(session, "p") == counts(session) == [(10, 1, 5), (10, 2, 5)]
