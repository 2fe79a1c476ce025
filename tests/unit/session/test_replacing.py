"""A query that replaces another keeps the state that it can use, and says what it keeps."""

import datetime as dt

import pytest

from headrace.errors import NameFault
from headrace.session import Message, Session
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAMS = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT, w INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM t (at TIMESTAMP, k INT, v INT, w INT) TIMESTAMP BY at FROM MEMORY;
"""
COUNTS = "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"
PAIRS = """SELECT s.k AS k, s.v AS a, t.v AS b, s.w AS c FROM s [RANGE 1 HOUR] JOIN t [RANGE 1 HOUR] ON s.k = t.k
    INTO MEMORY"""


@pytest.fixture(params=[1, 2], ids=["one bucket", "two buckets"])
def session(request, tmp_path):
    with Session(tmp_path, host="local", buckets=request.param) as made:
        made.execute(STREAMS)
        yield made


def push(session, stream, *values, k=1):
    rows = [{"at": EPOCH + dt.timedelta(seconds=value), "k": k, "v": value, "w": 10 * value} for value in values]
    session.push(stream, rows)
    while local_host(session).step():
        pass


def replace(session, text, query="q"):
    return session.execute(f"CREATE OR REPLACE QUERY {query} AS {text}")


def state(session, text):
    (listing,) = session.execute(f"EXPLAIN REPLACE QUERY q AS {text}")
    return [what for _, what in listing.rows]


def rows(session, query="q"):
    return sorted(tuple(row.values()) for row in session.results(query))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT count(*) AS c, k + 1 AS kk FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY", [(2, 3), (6, 2)]),
        ("SELECT sum(v) AS total, k FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY", [(9, 2), (21, 1)]),
        ("SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k HAVING sum(v) > 9 INTO MEMORY", [(1, 6)]),
        ("SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] WHERE k < 2 GROUP BY k INTO MEMORY", [(1, 6)]),
    ],
)
def test_a_window_of_an_hour_is_whole_though_the_query_changes_within_it(session, text, expected):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    push(session, "s", 3, k=2)
    assert state(session, text) == ["kept"]
    said = replace(session, text)
    assert isinstance(said[0], Message)
    assert said[0].text.startswith("query q keeps the state of ")
    push(session, "s", 4, 5, 6)
    push(session, "s", 6, k=2)
    session.drain()
    assert rows(session) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PAIRS.replace("s.k AS k, s.v AS a, t.v AS b, s.w AS c", "s.v AS x, t.v AS y"), lambda a, b: (a, b)),
        (PAIRS.replace("s.k AS k, s.v AS a, t.v AS b, s.w AS c", "s.v + s.w AS d"), lambda a, b: (11 * a,)),
        (PAIRS.replace("INTO", "WHERE s.v > 1 INTO"), lambda a, b: (1, a, b, 10 * a) if a > 1 else None),
        (
            PAIRS.replace("INTO", "WHERE s.v > t.v - 1 AND s.w = 30 INTO"),
            lambda a, b: (1, a, b, 10 * a) if a == 3 and b < 4 else None,
        ),
    ],
)
def test_tuples_from_before_meet_those_from_after_the_change_of_a_join(session, text, expected):
    session.execute(f"CREATE QUERY q AS {PAIRS}")
    push(session, "s", 1, 2)
    push(session, "t", 2)
    assert state(session, text) == ["kept"]
    replace(session, text)
    already = len(session.results("q"))
    push(session, "s", 3)
    push(session, "t", 3, 4)
    session.drain()
    pairs = [(3, 2)] + [(a, b) for a in (1, 2, 3) for b in (3, 4)]
    fresh = [tuple(row.values()) for row in session.results("q")[already:]]
    assert sorted(fresh) == sorted(row for a, b in pairs if (row := expected(a, b)) is not None)


def test_a_tuple_finds_partners_from_before_though_a_condition_was_added(session):
    """EXISTS asks for the most recent partner, and a condition on the tuple that asks leaves that as it is."""
    exists = "EXISTS (SELECT * FROM t [RANGE 1 HOUR] WHERE t.k = s.k) INTO MEMORY"
    session.execute(f"CREATE QUERY q AS SELECT k, v FROM s WHERE {exists}")
    push(session, "t", 1)
    push(session, "s", 2)
    text = f"SELECT v FROM s WHERE v > 3 AND {exists}"
    assert state(session, text) == ["kept", "kept"]
    replace(session, text)
    already = len(session.results("q"))
    push(session, "s", 3, 4)
    session.drain()
    assert [tuple(row.values()) for row in session.results("q")[already:]] == [(4,)]


def test_what_the_state_cannot_answer_begins_empty_and_this_is_said_before(session):
    session.execute(f"CREATE QUERY q AS {COUNTS.replace('GROUP', 'WHERE v > 1 GROUP')}")
    push(session, "s", 1, 2, 3)
    assert state(session, COUNTS) == ["begins empty", "dropped"]
    assert state(session, COUNTS.replace("sum(v)", "max(v)").replace("GROUP", "WHERE v > 1 GROUP")) == [
        "begins empty",
        "dropped",
    ]
    push(session, "s", 4)
    replace(session, COUNTS)
    push(session, "s", 5, 6)
    session.drain()
    assert rows(session) == [(1, 2, 11)]


def test_an_explanation_changes_nothing(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    before = [row for listing in session.execute("SHOW QUERIES") for row in listing.rows]
    state(session, COUNTS.replace("sum(v) AS total", "1 AS one"))
    (listing,) = session.execute("EXPLAIN CREATE OR REPLACE QUERY q AS SELECT v FROM s INTO MEMORY")
    assert [what for _, what in listing.rows] == ["dropped"]
    assert [row for listing in session.execute("SHOW QUERIES") for row in listing.rows] == before
    session.drain()
    assert rows(session) == [(1, 3, 6)]


def test_only_a_running_query_can_be_replaced(session):
    with pytest.raises(NameFault, match="no running query 'p' that could be replaced"):
        session.execute(f"EXPLAIN REPLACE QUERY p AS {COUNTS}")


def test_state_is_kept_over_several_replacements_and_for_later_readers(session):
    narrow = "SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"
    session.execute(f"CREATE QUERY q AS {COUNTS};")
    push(session, "s", 1, 2, 3)
    replace(session, narrow)
    push(session, "s", 4)
    (said,) = replace(session, narrow)
    assert said.text == "query q already exists"
    last = "SELECT sum(v) AS total FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"
    assert state(session, last) == ["kept"]
    replace(session, last)
    session.execute("CREATE QUERY reader AS SELECT total FROM q INTO MEMORY")
    push(session, "s", 5, 6)
    session.drain()
    assert rows(session) == rows(session, "reader") == [(21,)]


def test_a_query_to_which_something_is_assumed_hands_no_state_on(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    session.execute("ASSUME q WHERE k = 1 FOR 1 HOUR")
    assert state(session, COUNTS.replace("sum(v) AS total", "1 AS one")) == ["begins empty"]


NARROW = "SELECT k, count(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"


def test_a_query_goes_back_to_its_first_text_with_its_state(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    replace(session, NARROW)
    push(session, "s", 4)
    assert state(session, COUNTS) == ["kept"]
    replace(session, COUNTS)
    push(session, "s", 5)
    session.drain()
    assert rows(session) == [(1, 5, 15)]


def test_two_replacements_in_one_text_keep_the_state(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    total = "SELECT sum(v) AS total FROM s [RANGE 1 HOUR] GROUP BY k INTO MEMORY"
    session.execute(f"CREATE OR REPLACE QUERY q AS {NARROW}; CREATE OR REPLACE QUERY q AS {total}")
    push(session, "s", 4)
    session.drain()
    assert rows(session) == [(10,)]


def test_a_query_that_is_off_has_no_state_to_keep_and_this_is_said(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    session.execute("STOP QUERY q")
    with pytest.raises(NameFault) as told:
        state(session, NARROW)
    assert told.value.hint == "it is off: the new query begins empty"
    replace(session, NARROW)
    push(session, "s", 4)
    session.drain()
    assert rows(session) == [(1, 1)]


def test_readers_go_on_with_the_earlier_text_and_its_state(session):
    few = COUNTS.replace("GROUP BY k", "GROUP BY k HAVING count(*) > 100")
    session.execute(f"""CREATE QUERY q AS {COUNTS}; CREATE QUERY reader AS SELECT total, n FROM q INTO MEMORY;
        CREATE RULE big ON q DO INSERT INTO MEMORY""")
    push(session, "s", 1, 2, 3)
    (listing,) = session.execute(f"EXPLAIN REPLACE QUERY q AS {few}")
    told = "still reads the earlier text"
    assert listing.rows == (("count, sum(v) per k, 1 h", "kept"), ("reader", told), ("big", told))
    said = replace(session, few)
    assert said[0].text.endswith("; reader, big still read the earlier text; drop and create them to change that")
    push(session, "s", 4)
    session.drain()
    assert rows(session) == []
    assert rows(session, "reader") == [(10, 4)]
    assert rows(session, "big") == [(1, 4, 10)]


def test_another_query_that_shares_an_operator_does_not_notice(session):
    session.execute(f"CREATE QUERY q AS {COUNTS}; CREATE QUERY other AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    replace(session, NARROW)
    push(session, "s", 4)
    replace(session, "SELECT v FROM s INTO MEMORY")
    push(session, "s", 5)
    session.drain()
    assert rows(session) == [(5,)]
    assert rows(session, "other") == [(1, 5, 15)]


def test_promises_and_wishes_of_the_old_query_do_not_hinder(session):
    session.execute(f"CREATE QUERY q WITH (latency '1 s') AS {COUNTS}")
    push(session, "s", 1, 2, 3)
    session.execute("ALTER QUERY q SET (latency '5 s'); DESIRE q WHERE k = 1")
    assert state(session, NARROW) == ["kept"]
    replace(session, NARROW)
    push(session, "s", 4)
    session.drain()
    assert rows(session) == [(1, 4)]
