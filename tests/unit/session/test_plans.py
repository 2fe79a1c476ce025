"""Plans of joins of several streams: how they are shown, set and changed while a query runs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, NameFault, QueryError, SyntaxFault
from headrace.session import Session
from headrace.session.outcome import Listing, Message
from headrace.testing.watching import local_host

STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECONDS FROM MEMORY;" for name in "abcd"
)
JOIN = (
    "SELECT x.v AS a, y.v AS b, z.v AS c FROM a [RANGE 20 SECONDS] AS x JOIN b [RANGE 20 SECONDS] AS y ON x.k = y.k "
    "JOIN c [RANGE 20 SECONDS] AS z ON y.k = z.k"
)
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "run", host="local", buckets=2) as opened:
        opened.execute(f"{STREAMS} CREATE QUERY q AS {JOIN} INTO MEMORY")
        yield opened


def feed(session: Session, start: int, count: int = 10) -> None:
    for port, name in enumerate("abc"):
        rows = [
            {"at": START + datetime.timedelta(seconds=i), "k": (i + port) % 4, "v": 100 * port + i}
            for i in range(start, start + count)
        ]
        session.push(name, rows)
    local_host(session).step()


def listed(session: Session, what: str) -> list[dict[str, object]]:
    (listing,) = session.execute(f"SHOW {what}")
    assert isinstance(listing, Listing)
    return [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]


def results(session: Session) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in session.results("q"))


def expected(until: int, start: int = 0) -> Counter[tuple[object, ...]]:
    rows = [[(i, (i + port) % 4, 100 * port + i) for i in range(start, until)] for port in range(3)]
    return Counter(
        (a[2], b[2], c[2])
        for a in rows[0]
        for b in rows[1]
        for c in rows[2]
        if a[1] == b[1] == c[1] and max(a[0], b[0], c[0]) - min(a[0], b[0], c[0]) <= 20
    )


def said(session: Session, text: str) -> str:
    (message,) = session.execute(text)
    assert isinstance(message, Message)
    return message.text


def test_explain_shows_the_joins_as_one(session: Session) -> None:
    shown = session.explain("SELECT 1 AS one FROM a [NOW] JOIN b [NOW] ON a.k = b.k JOIN c [NOW] ON a.k = c.k")
    assert "Join a [RANGE 0 us] with b [RANGE 0 us] with c [RANGE 0 us] ON k = k_1 = k_2" in shown
    assert shown.count("Join") == 1


def test_a_plan_is_changed_and_shown(session: Session) -> None:
    feed(session, 0)
    (before,) = listed(session, "PLANS")
    assert before["plan"] == "((x y) z)"
    assert before["chosen by"] == "default"
    assert before["rows"] == 30
    assert before["joined rows"]
    assert said(session, "ALTER QUERY q SET plan = '((z y) x)'") == "q: plan ((z y) x) by moving state"
    feed(session, 10)
    (after,) = listed(session, "PLANS")
    assert (after["plan"], after["chosen by"]) == ("((z y) x)", "ALTER, fixed")
    (change,) = listed(session, "MIGRATIONS")
    assert (change["from"], change["to"], change["using"], change["state"]) == (
        "((x y) z)", "((z y) x)", "moving state", "done",
    )  # fmt: skip
    assert change["rows built"]
    assert said(session, "ALTER QUERY q SET plan = 'auto'") == "q: the plan is free to change"
    feed(session, 20)
    assert listed(session, "PLANS")[0]["chosen by"] == "ALTER"
    session.drain(timeout=30)
    assert results(session) == expected(30)


@pytest.mark.parametrize("using", ["", "USING MOVING STATE", "USING STEPWISE WITHIN '20 us'", "USING PARALLEL TRACK"])
def test_each_way_to_migrate_gives_all_results(session: Session, using: str) -> None:
    feed(session, 0)
    session.execute(f"ALTER QUERY q MIGRATE TO 'mjoin' {using}")
    feed(session, 10)
    session.execute(f"ALTER QUERY q MIGRATE TO '(x (y z))' {using}")
    states: list[Sequence[object]] = []
    for start in range(20, 80, 10):
        feed(session, start)
        states.append([entry["state"] for entry in listed(session, "MIGRATIONS")])
    assert states[-1] == ["done", "done"]
    assert (["done", "running"] in states) == ("PARALLEL" in using or "WITHIN" in using)
    assert listed(session, "PLANS")[0]["plan"] == "(x (y z))"
    session.drain(timeout=30)
    assert results(session) == expected(80)


def test_a_plan_survives_a_restart_in_the_middle_of_a_change(tmp_path: Path) -> None:
    with Session(tmp_path / "run", host="local", buckets=2) as session:
        session.execute(f"{STREAMS} CREATE QUERY q AS {JOIN} INTO FILES (path '{tmp_path}/out')")
        feed(session, 0)
        session.execute("ALTER QUERY q MIGRATE TO '(x (y z))' USING STEPWISE WITHIN '5 us'")
        local_host(session).step()
        assert listed(session, "PLANS")[0]["change"]
    with Session(tmp_path / "run", host="local", buckets=2) as session:
        feed(session, 10)
        session.drain(timeout=30)
        assert [entry["state"] for entry in listed(session, "MIGRATIONS")] == ["done"]
        assert session.statistics().queries["q"].results > 0


def test_the_plan_before_a_change_is_listed_also_in_the_first_micro_batch_of_a_process(tmp_path: Path) -> None:
    for start, tree in ((0, "(x (y z))"), (10, "(x y z)")):
        with Session(tmp_path / "run", host="local", buckets=2) as session:
            if not start:
                session.execute(f"{STREAMS} CREATE QUERY q AS {JOIN} INTO FILES (path '{tmp_path}/out')")
            session.execute(f"ALTER QUERY q MIGRATE TO '{tree}' USING MOVING STATE")
            feed(session, start)
            changes = [(entry["from"], entry["to"]) for entry in listed(session, "MIGRATIONS")]
    assert changes == [("((x y) z)", "(x (y z))"), ("(x (y z))", "(x y z)")]


@pytest.mark.parametrize("using", ["STEPWISE WITHIN '1 us'", "PARALLEL TRACK"])
def test_a_query_that_is_dropped_while_its_plan_changes_and_created_again_begins_empty(
    session: Session, using: str
) -> None:
    feed(session, 0)
    session.execute(f"ALTER QUERY q MIGRATE TO '(x (y z))' USING {using}")
    feed(session, 10, 1)
    assert listed(session, "PLANS")[0]["change"], "it is under way"
    session.execute("DROP QUERY q")
    local_host(session).step()
    session.execute(f"CREATE QUERY q AS {JOIN} INTO MEMORY")
    for start in (30, 40):
        feed(session, start)
    (shown,) = listed(session, "PLANS")
    assert (shown["plan"], shown["change"]) == ("((x y) z)", "")
    (change,) = listed(session, "MIGRATIONS")
    assert change["state"] == "given up"
    session.execute(f"ALTER QUERY q MIGRATE TO '(x (y z))' USING {using}")
    feed(session, 50)
    session.drain()
    assert results(session) - expected(11) == expected(60, 30)


@pytest.mark.parametrize("using", ["STEPWISE WITHIN '1 us'", "PARALLEL TRACK", "MOVING STATE"])
def test_a_query_that_is_replaced_while_its_plan_changes_loses_nothing(session: Session, using: str) -> None:
    feed(session, 0)
    session.execute(f"ALTER QUERY q MIGRATE TO '(x (y z))' USING {using}")
    feed(session, 10)
    found = results(session)
    changed = JOIN.replace("SELECT ", "SELECT x.k AS key, ")
    session.execute(f"CREATE OR REPLACE QUERY q AS {changed} INTO MEMORY")
    for start in (20, 30):
        feed(session, start)
    session.drain()
    rows = [tuple(row.values()) for row in session.results("q")]
    found += Counter(row[-3:] for row in rows if len(row) == 4)
    assert found == expected(40)


def test_more_rows_to_build_cause_further_micro_batches(session: Session) -> None:
    feed(session, 0)
    session.execute("ALTER QUERY q MIGRATE TO '(x (y z))' USING STEPWISE WITHIN '5 us'")
    for _ in range(20):
        local_host(session).step()
    (change,) = listed(session, "MIGRATIONS")
    assert change["state"] == "done"
    assert int(str(change["micro-batches"])) > 2


def test_a_change_of_one_query_says_who_shares_the_join(session: Session) -> None:
    session.execute("CREATE QUERY r AS SELECT a FROM q INTO MEMORY")
    assert "r shares this join" in said(session, "ALTER QUERY q SET plan = 'mjoin'")


@pytest.mark.parametrize(
    ("text", "fault", "message"),
    [
        ("ALTER QUERY q SET plan = '((x y) w)'", NameFault, "there is no input 'w' in the join"),
        ("ALTER QUERY q SET plan = '(x y)'", NameFault, "lacks z"),
        ("ALTER QUERY q SET plan = '((x y) (z x))'", NameFault, "x stands twice"),
        ("ALTER QUERY q SET plan = '((x y) z'", SyntaxFault, "lacks a closing parenthesis"),
        ("ALTER QUERY q SET plan = ''", NameFault, "lacks x, y, z"),
        ("ALTER QUERY nobody SET plan = 'mjoin'", NameFault, "no running query 'nobody'"),
        ("ALTER SYSTEM SET plan = 'mjoin'", QueryError, "plan is set for each query by itself"),
        ("ALTER QUERY two SET plan = 'mjoin'", QueryError, "a join of two streams has one plan only"),
        ("ALTER QUERY two MIGRATE TO 'mjoin'", QueryError, "a join of two streams has one plan only"),
        ("ALTER QUERY none SET plan = 'auto'", QueryError, "it joins no streams"),
        ("ALTER QUERY outer_ SET plan = 'mjoin'", QueryError, "outer joins cannot be made in another order"),
        ("ALTER QUERY counted SET plan = 'mjoin'", QueryError, "windows of ROWS"),
        ("ALTER QUERY apart SET plan = 'mjoin'", QueryError, "no key that all streams have"),
        ("ALTER QUERY ever MIGRATE TO 'mjoin' USING PARALLEL TRACK", QueryError, "a parallel track would never end"),
        ("ALTER QUERY q MIGRATE TO 'mjoin' USING MAGIC", SyntaxFault, "expected STEPWISE"),
        ("ALTER QUERY q MIGRATE TO 'mjoin' USING STEPWISE WITHIN 'soon'", SyntaxFault, "soon"),
        ("ALTER QUERY q MIGRATE '(x y z)'", SyntaxFault, "expected TO"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(
    session: Session, text: str, fault: type[HeadraceError], message: str
) -> None:
    two = "FROM a [NOW] AS x JOIN b [NOW] AS y ON x.k = y.k"
    session.execute(
        f"CREATE QUERY two AS SELECT x.v {two} INTO MEMORY; CREATE QUERY none AS SELECT v FROM a INTO MEMORY;"
        f"CREATE QUERY outer_ AS SELECT x.v {two} LEFT JOIN c [NOW] AS z ON x.k = z.k INTO MEMORY;"
        f"CREATE QUERY counted AS SELECT x.v {two} JOIN c [ROWS 3] AS z ON x.k = z.k INTO MEMORY;"
        "ALTER SYSTEM SET grid = 'off';"
        f"CREATE QUERY apart AS SELECT x.v {two} JOIN c [NOW] AS z ON y.v = z.v INTO MEMORY;"
        f"CREATE QUERY ever AS SELECT x.v {two} JOIN c [UNBOUNDED] AS z ON y.k = z.k INTO MEMORY;"
    )
    with pytest.raises(fault, match=message) as refused:
        session.execute(text)
    assert refused.value.span is not None
    assert not listed(session, "MIGRATIONS")


def test_the_join_of_a_stint_begins_with_the_tree_that_was_set(session: Session) -> None:
    feed(session, 0)
    session.execute("ALTER QUERY q SET plan = 'mjoin'")
    feed(session, 10)
    session.execute("STOP QUERY q")
    local_host(session).step()
    with pytest.raises(HeadraceError):
        session.execute("ALTER QUERY q SET plan = 'left-deep'")
    session.execute("START QUERY q")
    feed(session, 20)
    assert listed(session, "PLANS")[0]["plan"] == "(x y z)"


def explained(session: Session, text: str) -> str:
    (shown,) = session.execute(f"EXPLAIN {text}")
    assert isinstance(shown, Message)
    return shown.text


def test_explain_draws_the_tree_that_a_query_would_begin_with_and_the_one_that_runs(session: Session) -> None:
    drawn = "results of\n    stored pairs of\n      x\n      y\n    z"
    assert explained(session, JOIN).endswith(f"\n\njoin begins as ((x y) z)\n  {drawn}")
    assert explained(session, "q").endswith(f"\n\njoin runs as ((x y) z)\n  {drawn}")
    session.execute("ALTER QUERY q SET plan = '(z (x y))'")
    assert explained(session, "q").endswith("as (z (x y))\n  results of\n    z\n    stored pairs of\n      x\n      y")
    session.execute("ALTER QUERY q SET plan = 'mjoin'")
    assert explained(session, "q").endswith("as (x y z)\n  results of\n    x\n    y\n    z")


@pytest.mark.parametrize(
    ("joins", "said"),
    [
        (
            "a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k JOIN c [RANGE 5 SECONDS] ON b.v = c.v",
            "a, b, c are joined in the order of FROM: no key is in all inputs",
        ),
        (
            "a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k LEFT JOIN c [RANGE 5 SECONDS] ON b.k = c.k",
            "a, b, c are joined in the order of FROM: a row that came out of an outer join",
        ),
        (
            "a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k JOIN c [RANGE 5 SECONDS] ON b.k = c.k "
            "LEFT JOIN d [RANGE 5 SECONDS] ON d.k = c.k",
            "(a b c), d are joined in the order of FROM: a row that came out of an outer join",
        ),
        (
            "a [ROWS 5] JOIN b [ROWS 5] ON a.k = b.k JOIN c [ROWS 5] ON b.k = c.k",
            "a, b, c are joined in the order of FROM: what a window of rows holds",
        ),
        (
            "a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k / 2.0 = b.k / 2.0 "
            "JOIN c [RANGE 5 SECONDS] ON b.k / 2.0 = c.k / 2.0",
            "a, b, c are joined in the order of FROM: keys of type DOUBLE",
        ),
    ],
)
def test_explain_says_why_joins_have_one_plan_only(session: Session, joins: str, said: str) -> None:
    session.execute("ALTER SYSTEM SET grid = 'off'")
    assert said in explained(session, f"SELECT a.v AS x FROM {joins}")


def test_explain_says_nothing_of_joins_of_two_inputs(session: Session) -> None:
    shown = explained(session, "SELECT a.v AS x FROM a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k")
    assert "order of FROM" not in shown
    assert "stored pairs" not in shown


LATE = f"""CREATE FUNCTION kept(INT) RETURNS BOOLEAN FROM PYTHON 'headrace.testing.migrations:is_kept';
CREATE QUERY q AS {JOIN} WHERE kept(y.k) AND y.v > 0 INTO MEMORY"""


def test_a_condition_with_a_function_of_the_user_is_tested_where_the_plan_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_ALLOW_PYTHON", "headrace.testing.migrations")
    with Session(tmp_path / "run", host="local", buckets=2) as session:
        session.execute(STREAMS + LATE)
        assert "is tested on tuples of y" in explained(session, "q")
        assert "v > 0" not in explained(session, "q").partition("join begins")[2], "what is cheap comes first"
        feed(session, 0)
        for start, plan in ((10, "((x y) z) late y"), (20, "(x y z)"), (30, "(x y z) LATE Y")):
            session.execute(f"ALTER QUERY q MIGRATE TO '{plan}'")
            feed(session, start)
            assert listed(session, "PLANS")[0]["plan"] == plan.lower()
        assert "is tested on results" in explained(session, "q")
        for plan, error in (
            ("(x y z) late", SyntaxFault),
            ("(x y z) late w", NameFault),
            ("(x y z) late x", QueryError),
        ):
            with pytest.raises(error) as raised:
                session.execute(f"ALTER QUERY q SET plan = '{plan}'")
            assert raised.value.hint
        session.drain()
        kept = Counter({row: n for row, n in expected(40).items() if (row[1] - 100 + 1) % 4 != 1})
        assert results(session) == kept


def test_a_bucket_has_a_tree_of_its_own_until_all_get_another(session: Session) -> None:
    feed(session, 0)
    (first, second) = (row["bucket"] for row in listed(session, "BUCKETS"))
    assert said(session, f"ALTER QUERY q SET plan = '(x (y z))' IN BUCKET {second}") == (
        f"q: plan (x (y z)) by moving state in bucket {second}"
    )
    feed(session, 10)
    rows = {row["plan"]: row for row in listed(session, "PLANS")}
    assert {plan: row["buckets"] for plan, row in rows.items()} == {"((x y) z)": str(first), "(x (y z))": str(second)}
    assert [row["chosen by"] for row in rows.values()] == ["default, fixed", "ALTER, fixed"]
    assert sum(int(str(row["rows"])) for row in rows.values()) == 60
    (change,) = listed(session, "MIGRATIONS")
    assert (change["from"], change["to"]) == ("((x y) z)", "(x (y z))")
    assert (change["using"], change["state"]) == (f"moving state in bucket {second}", "done")
    assert f"in bucket {second}: the join runs as (x (y z))" in explained(session, "q")
    parcels = ", ".join(map(str, range(0, 128, 3)))
    session.execute(f"MOVE PARCELS {parcels} OF q TO BUCKET {first}; MOVE PARCELS {parcels} OF q TO BUCKET {second}")
    feed(session, 20)
    session.execute(f"MOVE PARCELS {parcels} OF q TO BUCKET {first}")
    feed(session, 30)
    session.execute("ALTER QUERY q SET plan = '((x z) y)'")
    feed(session, 40)
    (only,) = listed(session, "PLANS")
    assert (only["plan"], only["buckets"]) == ("((x z) y)", "all")
    assert "in bucket" not in explained(session, "q")
    session.drain(timeout=30)
    assert results(session) == expected(50)


def test_trees_of_buckets_survive_a_restart_and_a_stint(tmp_path: Path) -> None:
    with Session(tmp_path / "run", host="local", buckets=2) as session:
        session.execute(f"{STREAMS} CREATE QUERY q AS {JOIN} INTO MEMORY")
        feed(session, 0)
        bucket = listed(session, "BUCKETS")[1]["bucket"]
        session.execute(f"ALTER QUERY q MIGRATE TO '(x (y z))' USING MOVING STATE IN BUCKET {bucket}")
        feed(session, 10)
    with Session(tmp_path / "run", host="local", buckets=2) as session:
        session.start()
        feed(session, 20)
        assert {row["plan"] for row in listed(session, "PLANS")} == {"((x y) z)", "(x (y z))"}
        session.execute("STOP QUERY q; START QUERY q")
        feed(session, 30)
        assert {row["plan"] for row in listed(session, "PLANS")} == {"((x y) z)", "(x (y z))"}


@pytest.mark.parametrize(
    ("statement", "fault", "hint"),
    [
        ("ALTER QUERY q SET plan = 'mjoin' IN BUCKET 77", "there is no bucket 77", "choose one of"),
        ("ALTER QUERY q MIGRATE TO 'mjoin' IN BUCKETS 0, 78", "there is no bucket 78", "choose one of"),
        ("ALTER QUERY q SET plan = 'auto' IN BUCKET 0", "free to change in all buckets alike", "SET plan = 'auto'"),
        ("ALTER QUERY q SET plan = 'mjoin' IN 0", "expected BUCKET", "IN BUCKET 2"),
        ("ALTER QUERY q SET scheduler = 'chain' IN BUCKET 0", "scheduler is the same in all buckets", "SET plan ="),
        ("ALTER SYSTEM SET local_plans = 'on'", "local_plans cannot be 'on'", "'auto' or 'off'"),
    ],
)
def test_trees_of_buckets_that_cannot_be_are_refused(session: Session, statement: str, fault: str, hint: str) -> None:
    feed(session, 0)
    with pytest.raises(HeadraceError) as raised:
        session.execute(statement)
    assert fault in str(raised.value)
    assert hint in (raised.value.hint or "")
