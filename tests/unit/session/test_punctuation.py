"""Streams whose records say that a key is complete: results come earlier, state is smaller, and nothing is lost."""

import datetime as dt

import pytest

from headrace.errors import NameFault
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAMS = """
CREATE STREAM readings (at TIMESTAMP, segment INT, speed DOUBLE, done BOOLEAN) TIMESTAMP BY at SKEW 1 HOUR
  PUNCTUATED BY done ON (segment) FROM MEMORY;
CREATE STREAM tolls (at TIMESTAMP, segment INT, toll INT, closed TIMESTAMP) TIMESTAMP BY at SKEW 1 HOUR
  PUNCTUATED BY closed ON (segment) FROM MEMORY
"""
COUNTS = "CREATE QUERY counts AS SELECT segment, count(*) AS n FROM readings [RANGE 10 SECONDS] GROUP BY segment"


@pytest.fixture(params=[False, True], ids=["kept", "restored"])
def session(request):
    with Session(host="local", buckets=3) as made:
        assert isinstance(made.deployment, LocalDeployment)
        made.deployment.forgetful = request.param
        made.execute(STREAMS)
        yield made


def at(second):
    return EPOCH + dt.timedelta(seconds=second)


def push(session, stream, *rows):
    session.push(stream, [{**row, "at": at(row["at"])} for row in rows])
    while local_host(session).step():
        pass


def reading(second, segment, speed=50.0, done=False):
    return {"at": second, "segment": segment, "speed": speed, "done": done}


def held(session, kind):
    return sum(seen.held for name, seen in session.statistics().vertices.items() if name.startswith(kind))


def test_a_group_is_reported_and_forgotten_when_its_key_is_complete(session):
    session.execute(f"{COUNTS} INTO MEMORY")
    push(session, "readings", *(reading(second, segment) for second in range(5) for segment in range(100)))
    assert session.results("counts") == [], "the frontier is an hour behind"
    assert held(session, "paneaggregate") == 100
    push(session, "readings", *(reading(10, segment, done=True) for segment in range(0, 100, 2)))
    early = session.results("counts")
    assert {(row["segment"], row["n"]) for row in early} == {(segment, 5) for segment in range(0, 100, 2)}
    assert held(session, "paneaggregate") == 50
    push(session, "readings", reading(4, 2), reading(4, 3), reading(10, 2))
    session.drain()
    rows = session.results("counts")
    assert len(rows) == 101
    assert {(row["segment"], row["n"]) for row in rows if row["segment"] in (2, 3)} == {(2, 5), (3, 6), (2, 1)}


def test_a_tuple_that_contradicts_a_mark_is_late_and_counted(session):
    session.execute(f"{COUNTS} INTO MEMORY; CREATE QUERY late AS SELECT segment, speed FROM readings.late INTO MEMORY")
    push(session, "readings", reading(1, 1), reading(9, 1, done=True), reading(8, 1, 3.0), reading(8, 2, 4.0))
    assert [(row["segment"], row["speed"]) for row in session.results("late")] == [(1, 3.0)]
    (listing,) = session.execute("SHOW STREAMS")
    late = {row[0]: row[listing.columns.index("late")] for row in listing.rows}
    assert late == {"readings": 1, "tolls": 0}


def test_marks_before_any_tuple_of_keys_never_seen_and_repeated_ones_change_nothing(session):
    session.execute(f"{COUNTS} INTO MEMORY")
    push(session, "readings", reading(5, 7, done=True), reading(5, 7, done=True), reading(3, None, done=True))
    push(session, "readings", reading(6, 7), reading(4, None), reading(20, 7, done=True), reading(20, 7, done=True))
    push(session, "readings", reading(15, 7, done=True), reading(30, 8, done=True))
    assert [(row["segment"], row["n"]) for row in session.results("counts")] == [(7, 1)]
    session.drain()
    assert sorted((str(row["segment"]), row["n"]) for row in session.results("counts")) == [("7", 1), ("None", 1)]


def test_a_join_forgets_what_can_meet_nothing_more(session):
    session.execute("""CREATE QUERY pairs AS SELECT r.segment, r.speed, t.toll FROM readings [RANGE 1 MINUTE] AS r
        JOIN tolls [RANGE 1 MINUTE] AS t ON r.segment = t.segment INTO MEMORY""")
    push(session, "readings", *(reading(second, second % 10) for second in range(100)))
    assert held(session, "join") == 100
    push(session, "tolls", *({"at": 200, "segment": segment, "closed": at(300)} for segment in range(8)))
    assert held(session, "join") == 20, "no toll of 8 segments comes before the end of their windows"
    push(session, "readings", reading(210, 1), reading(290, 1), reading(291, 9))
    assert held(session, "join") == 22, "the window of 290 reaches beyond the end"
    push(session, "tolls", {"at": 310, "segment": 1, "toll": 3}, {"at": 300, "segment": 9, "toll": 4})
    rows = sorted((row["segment"], row["toll"]) for row in session.results("pairs"))
    assert rows == [(1, 3), (9, 4)]


def test_ends_of_both_inputs_close_groups_behind_a_join(session):
    session.execute("""CREATE QUERY sums AS SELECT r.segment, count(*) AS n FROM readings [RANGE 10 SECONDS] AS r
        JOIN tolls [RANGE 10 SECONDS] AS t ON r.segment = t.segment GROUP BY r.segment INTO MEMORY""")
    push(session, "readings", reading(1, 1), reading(2, 1), reading(2, 2))
    push(session, "tolls", {"at": 3, "segment": 1, "toll": 1}, {"at": 3, "segment": 2, "toll": 1})
    push(session, "tolls", {"at": 20, "segment": 1, "closed": at(20)}, {"at": 20, "segment": 2, "closed": at(20)})
    assert session.results("sums") == []
    push(session, "readings", reading(12, 1, done=True))
    assert [(row["segment"], row["n"]) for row in session.results("sums")] == [(1, 2)]
    session.drain()
    assert sorted((row["segment"], row["n"]) for row in session.results("sums")) == [(1, 2), (2, 1)]


def test_a_guard_ends_when_what_it_drops_is_complete(session):
    session.execute("ALTER SYSTEM SET buckets = 1")  # others do not know of the key
    session.execute("CREATE QUERY fast AS SELECT at, segment, speed FROM readings WHERE speed > 10 INTO MEMORY")
    push(session, "readings", reading(1, 1), reading(1, 2))
    session.execute(f"ASSUME fast WHERE segment = 1 AND rowtime < TIMESTAMP '{at(60)}'")
    push(session, "readings", reading(2, 1), reading(2, 2))
    active = [key for key, seen in session.statistics().guards.items() if seen.active]
    assert active
    push(session, "readings", reading(60, 1, done=True), reading(61, 1))
    ended = [reader.partition("-")[0] for (reader, _), seen in session.statistics().guards.items() if not seen.active]
    assert {"filter", "output"} <= {*ended}, "segment 1 is complete up to the time of the guard"
    assert [(row["segment"], row["at"]) for row in session.results("fast")] == [
        (1, at(1)),
        (2, at(1)),
        (2, at(2)),
        (1, at(61)),
    ]


def test_whether_a_stream_has_marks_cannot_change_while_it_is_read(session):
    session.execute(f"{COUNTS} INTO MEMORY")
    plain = (
        STREAMS.partition(";")[0].replace("PUNCTUATED BY done ON (segment)", "").replace("CREATE", "CREATE OR REPLACE")
    )
    with pytest.raises(NameFault, match="the marks of 'readings' cannot change: it is read by counts"):
        session.execute(plain)
    session.execute(f"DROP QUERY counts; {plain}; {COUNTS} INTO MEMORY")
    push(session, "readings", reading(1, 1), reading(10, 1, done=True))
    assert session.results("counts") == [], "a tuple as any other now"


def test_marks_are_known_after_a_restart(tmp_path):
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(f"{STREAMS}; {COUNTS} INTO FILES (path '{tmp_path}/out', format 'json');"
                        f"CREATE QUERY late AS SELECT segment FROM readings.late INTO FILES (path '{tmp_path}/late', "
                        "format 'json')")  # fmt: skip
        push(session, "readings", reading(1, 1), reading(1, 2), reading(10, 1, done=True))
    with Session(tmp_path, host="local", buckets=2) as session:
        session.start()
        push(session, "readings", reading(5, 1), reading(5, 2))
        session.drain()

    def written(name):
        return "".join(sorted(path.read_text() for path in (tmp_path / name).glob("*.json")))

    assert written("late").strip() == '{"segment":1}'
    assert sorted(written("out").split()) == ['{"segment":1,"n":1}', '{"segment":2,"n":2}']
