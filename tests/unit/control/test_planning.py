"""The optimizer in a deployment: it looks at joins of several streams, changes their plans, and says why."""

import datetime as dt
import json
import random

import polars as pl
import pytest

from headrace.control.planning import boxes_of, shape_of
from headrace.control.policies import plan_choice
from headrace.errors import NameFault, QueryError
from headrace.model.time import SECOND
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.multijoin.spec import MultiJoin
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAMS = "".join(f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;" for name in "abc")
JOIN = """SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS]
    WHERE a.k = b.k AND b.k = c.k"""


@pytest.fixture
def eager(monkeypatch):
    """Let small savings count, so that decisions do not depend on the speed of the machine."""
    monkeypatch.setattr(plan_choice, "LEAST_WORK", 0.0)


@pytest.fixture
def session(tmp_path):
    with Session(tmp_path / "checkpoint", host="local", buckets=2) as opened:
        local_host(opened).clock = VirtualClock(1_767_225_600 * SECOND)
        opened.execute(STREAMS + f"CREATE QUERY q AS {JOIN} INTO MEMORY")
        yield opened


def run(session, seconds, hot="ab", begin=0, streams="abc", few=5):
    """Push tuples for some seconds: two streams have few keys, the third has many, so pairs with it are rare."""
    host, chance = local_host(session), random.Random(begin)
    for second in range(begin, begin + seconds):
        for name in streams:
            keys = few if name in hot else 400
            rows = [
                {"at": EPOCH + dt.timedelta(seconds=second, milliseconds=20 * i), "k": chance.randrange(keys), "v": i}
                for i in range(50)
            ]
            session.push(name, rows)
        while host.step():
            pass
        assert isinstance(host.clock, VirtualClock)
        host.clock.advance(SECOND)


def changes(session):
    (listing,) = session.execute("SHOW DECISIONS")
    return [action for _, _, action, _ in listing.rows if "run its join" in action]


def results(session):
    session.drain()
    return sorted(tuple(row.values()) for row in session.results("q"))


@pytest.mark.slow
def test_a_join_finds_the_better_plan_by_itself_and_its_results_stay_the_same(eager, session, tmp_path):
    with Session(tmp_path / "other", host="local", buckets=2) as other:
        local_host(other).clock = VirtualClock(1_767_225_600 * SECOND)
        other.execute(STREAMS + f"CREATE QUERY q AS {JOIN} INTO MEMORY; ALTER SYSTEM SET optimizer = 'off'")
        for opened in (session, other):
            run(opened, 40)
        assert changes(other) == []
        (change,) = changes(session)
        assert change.startswith("run its join as (")
        assert change.endswith("instead of ((a b) c), at once")
        assert "((a b)" not in change.partition(" instead of ")[0], "a and b match each other most often"
        assert results(session) == results(other)


@pytest.mark.slow
def test_statistics_that_stay_change_no_plan_twice(eager, session):
    run(session, 70)
    assert len(changes(session)) == 1


@pytest.mark.slow
def test_a_drift_is_noticed_at_once_though_nothing_had_changed_for_long(eager, session):
    run(session, 30)
    before = len(changes(session))
    run(session, 6, hot="bc", begin=30)
    after = changes(session)
    assert len(after) == before + 1, "two looks, within a few micro-batches"
    assert "((b c)" not in after[-1].partition(" instead of ")[0]


@pytest.mark.slow
@pytest.mark.parametrize("silent", ["b", "c"])
def test_a_stream_that_is_silent_from_the_start_and_later_again_changes_no_result(eager, session, tmp_path, silent):
    with Session(tmp_path / "other", host="local", buckets=2) as other:
        local_host(other).clock = VirtualClock(1_767_225_600 * SECOND)
        other.execute(STREAMS + f"CREATE QUERY q AS {JOIN} INTO MEMORY; ALTER SYSTEM SET optimizer = 'off'")
        for opened in (session, other):
            run(opened, 12, streams="abc".replace(silent, ""))
            run(opened, 16, begin=12)
            run(opened, 12, begin=28, streams="abc".replace(silent, ""))
        assert changes(other) == []
        assert changes(session), "the data that come in the middle call for another plan"
        assert results(session) == results(other)


SLOW = """
CREATE FUNCTION slow(INT) RETURNS BOOLEAN FROM PYTHON 'slow_code:slow';
CREATE QUERY q AS SELECT a.k AS k, b.v AS y FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS] WHERE a.k = b.k AND slow(a.v)
  INTO MEMORY;
"""


@pytest.mark.slow
def test_a_condition_that_takes_long_is_tested_late_while_results_are_few(eager, tmp_path, monkeypatch):
    (tmp_path / "slow_code.py").write_text("def slow(v):\n    return sum(range(25000 + v)) % 2 == 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADRACE_ALLOW_PYTHON", "slow_code")
    found = {}
    for optimizer in ("off", "auto"):
        with Session(tmp_path / optimizer, host="local", buckets=2) as session:
            local_host(session).clock = VirtualClock(1_767_225_600 * SECOND)
            session.execute(STREAMS + SLOW + f"ALTER SYSTEM SET optimizer = '{optimizer}'")
            for begin, hot in ((0, "b"), (18, "ab")):  # results are few at first, and many later
                run(session, 18, hot, begin, "ab", few=25)
                if optimizer == "auto" and hot == "b":
                    (plans,) = session.execute("EXPLAIN PLANS q")
                    (running,) = (line for line in plans.text.splitlines() if "runs now" in line)
                    assert running.startswith("(a b) late a ")
            decided = changes(session)
            found[optimizer] = results(session)
            if optimizer == "off":
                assert decided == []
            else:
                assert [change.partition(",")[0] for change in decided] == [
                    "run its join as (a b) late a instead of (a b)",
                    "run its join as (a b) instead of (a b) late a",
                ]
    assert found["auto"] == found["off"]
    assert len(found["auto"]) > 1000


def test_one_query_is_left_alone_if_its_optimizer_is_off(eager, session):
    session.execute("ALTER QUERY q SET optimizer = 'off'")
    run(session, 40)
    assert changes(session) == []
    view = next(iter(session.deployment.control.views.values()))
    assert view.choice.changes, "it would change"


@pytest.mark.slow
def test_a_plan_that_a_user_fixed_stays_until_it_is_free(eager, session):
    session.execute("ALTER QUERY q SET plan = '((a b) c)'")
    run(session, 40)
    assert changes(session) == []
    assert "(optimizer: off, the plan is fixed)" in session.execute("EXPLAIN PLANS q")[0].text
    session.execute("ALTER QUERY q SET plan = 'auto'")
    run(session, 30, begin=40)
    assert len(changes(session)) == 1


@pytest.mark.slow
def test_a_restart_goes_on_with_the_plan_that_was_chosen(eager, tmp_path):
    text = STREAMS + f"CREATE QUERY q AS {JOIN} INTO MEMORY"
    clock = VirtualClock(1_767_225_600 * SECOND)
    with Session(tmp_path, host="local", buckets=2) as first:
        local_host(first).clock = clock
        first.execute(text)
        run(first, 40)
        (change,) = changes(first)
    with Session(tmp_path, host="local", buckets=2) as second:
        local_host(second).clock = clock
        second.execute(text)
        run(second, 30, begin=40)
        (listing,) = second.execute("SHOW PLANS")
        assert f"as {listing.rows[0][1]} instead" in change
        assert changes(second) == [change]


@pytest.mark.slow
def test_explain_plans_shows_the_front_what_runs_and_the_price_of_a_change(eager, session):
    session.execute("ALTER QUERY q SET optimizer = 'off'")
    before = session.execute("EXPLAIN PLANS q")[0].text
    assert before.splitlines()[0] == "join a x b x c on k = k_1 = k_2 (optimizer: off)"
    assert before.endswith("* assumed: rates that nobody declares, how many keys agree, the speed of the machine")
    run(session, 40)
    (join,) = json.loads(session.execute("EXPLAIN PLANS JSON q")[0].text)
    assert join["assumed"] == []
    plans = {plan["plan"]: plan for plan in join["plans"]}
    assert plans["((a b) c)"]["runs"]
    best = next(plan for plan in plans.values() if plan["best"])
    assert best["work"] < plans["((a b) c)"]["work"]
    assert best["build_seconds"] >= 0
    assert len(best["orders"]) == 4
    assert "runs now" in session.execute("EXPLAIN PLANS q")[0].text


def test_explain_plans_of_a_select_and_of_a_query_without_plans(session):
    shown = session.execute(f"EXPLAIN PLANS {JOIN}")[0].text
    assert "(a b c)" in shown
    assert "((a b) c)" in shown
    with pytest.raises(QueryError, match="has no join with several plans"):
        session.execute("EXPLAIN PLANS SELECT v FROM a")


def test_the_optimizer_is_auto_or_off(session):
    with pytest.raises(NameFault, match="optimizer cannot be 'on'"):
        session.execute("ALTER SYSTEM SET optimizer = 'on'")
    session.execute("ALTER SYSTEM SET optimizer = 'off'; ALTER QUERY q SET optimizer = 'auto'")
    (listing,) = session.execute("SHOW SETTINGS")
    chosen = [row for row in listing.rows if row[0] == "optimizer"]
    assert chosen == [("optimizer", "all", "off", "ALTER"), ("optimizer", "q", "auto", "ALTER")]


@pytest.mark.slow
def test_a_limit_of_memory_chooses_a_plan_that_stores_less(session, monkeypatch):
    monkeypatch.setattr(plan_choice, "LEAST_SHARE", 1.0)  # no saving of work is enough
    run(session, 15)
    assert changes(session) == []
    session.execute("ALTER SYSTEM SET memory = '200 KB'")
    run(session, 20, begin=15)
    (listing,) = session.execute("SHOW DECISIONS")
    (change,) = [row for row in listing.rows if "run its join" in row[2]]
    assert "instead of ((a b) c)" in change[2]
    assert "the plan of before exceeds what it may use of memory" in change[3]
    (settings,) = session.execute("SHOW SETTINGS")
    assert ("memory", "all", "200 KB", "ALTER") in settings.rows
    session.execute("ALTER SYSTEM SET memory = 'off'")
    (settings,) = session.execute("SHOW SETTINGS")
    assert ("memory", "all", "off", "ALTER") in settings.rows


def test_the_joins_that_run_are_known_with_their_queries_and_windows(session):
    running = session.deployment.intake.deployments.newest()
    (box,) = boxes_of(running, 2).values()
    assert (box.names, box.queries, box.window, box.buckets) == (("a", "b", "c"), ("q",), 5.0, 2)
    (vertex,) = (v for v in running.queries[0].graph if isinstance(v.spec, MultiJoin))
    assert shape_of(vertex.spec).classes == ((0, 1, 2),)


def keys_of_buckets(count):
    """Return keys by the bucket, of two, in which they are."""
    keys = pl.Series("k", range(count), dtype=pl.Int32)
    places = (hash_columns([keys]) % 2).tolist()
    return [[key for key, place in enumerate(places) if place == bucket] for bucket in (0, 1)]


@pytest.mark.slow
def test_buckets_choose_their_own_trees_if_local_plans_are_on(eager, session, tmp_path):
    host, chance, keys = local_host(session), random.Random(1), keys_of_buckets(400)
    session.execute("ALTER SYSTEM SET local_plans = 'auto'")

    def seconds(begin, end):
        """Push tuples of which a and b have few keys in one bucket, b and c in the other."""
        for second in range(begin, end):
            for place, name in enumerate("abc"):
                rows = []
                for i in range(60):
                    bucket = i % 2
                    some = keys[bucket][:4] if name in ("ab", "bc")[bucket] else keys[bucket]
                    at = EPOCH + dt.timedelta(seconds=second, milliseconds=10 * i + place)
                    rows.append({"at": at, "k": chance.choice(some), "v": i})
                session.push(name, rows)
            while host.step():
                pass
            assert isinstance(host.clock, VirtualClock)
            host.clock.advance(SECOND)

    seconds(0, 40)
    assert any("in bucket" in change for change in changes(session)), "one alone"
    (listing,) = session.execute("SHOW PLANS")
    plans = {row[-1]: row[1] for row in listing.rows}
    assert len(plans) == 2, "the buckets run different trees"
    assert any("(b c)" not in plan and "(c b)" not in plan for plan in plans.values())
    joined = sum(row[4] for row in listing.rows)
    session.execute("ALTER SYSTEM SET local_plans = 'off'; ALTER QUERY q SET plan = 'left-deep'")
    seconds(40, 50)
    (listing,) = session.execute("SHOW PLANS")
    (only,) = listing.rows
    assert only[-1] == "all"
    assert joined < only[4] / 2, "fewer pairs are stored than by the plan of all"
