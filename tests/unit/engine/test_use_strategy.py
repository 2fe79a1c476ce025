"""The command that changes how operators are selected, as a deployment takes it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.commands.command import AddQuery, Drain, DropQuery, Set, decode_command, encode_command
from headrace.commands.running import Running
from headrace.commands.settings import Strategy
from headrace.errors import HeadraceError
from headrace.session import Session
from headrace.worker.bucket import Bucket

TEXT = """
CREATE STREAM s (k INT, v INT) FROM MEMORY;
CREATE QUERY small AS SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k INTO MEMORY;
CREATE QUERY large AS SELECT k, max(v) + 1 AS w FROM s [RANGE 1 SECOND SLIDE TUPLE] GROUP BY k INTO MEMORY;
"""


def test_a_command_survives_the_log() -> None:
    for command in (Set(None, Strategy("bfs")), Set("q", Strategy("dfs-10"))):
        assert decode_command(encode_command(command)) == command


def test_the_newest_strategy_of_a_query_counts_and_goes_with_it() -> None:
    running = Running()
    for command in (Set("q", Strategy("bfs")), Set(None, Strategy("rr")), Set("q", Strategy("dfs-2")), Drain()):
        running = running.after(command)
    assert running.strategies == {None: Strategy("rr"), "q": Strategy("dfs-2")}
    assert (running.commands, running.draining) == (4, True)
    assert running.after(DropQuery("q")).strategies == {None: Strategy("rr")}


@pytest.mark.parametrize("forgetful", [False, True])
def test_a_bucket_takes_it_at_a_micro_batch_and_keeps_it(forgetful: bool) -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(TEXT)
        deployment: Any = session.deployment
        deployment.forgetful = forgetful
        session.push("s", [{"k": 1, "v": 2}])
        deployment.step()
        assert {rule for rule in rules(deployment.kept[0]).values() if rule.startswith("DFS-")}
        deployment.send(Set(None, Strategy("bfs")))
        deployment.send(Set("large", Strategy("dfs-7")))
        session.push("s", [{"k": 1, "v": 3}])
        deployment.step()
        bucket = deployment.kept[0]
        large = next(query for query in bucket.running.queries if query.query == "large")
        assert isinstance(large, AddQuery)
        own = {vertex.id for vertex in large.graph}
        found = rules(bucket)
        assert all(rule.startswith("DFSK-" if name in own else "BFS-") for name, rule in found.items())
        assert {rule.split("-")[0] for rule in found.values()} == {"DFSK", "BFS"}
        session.push("s", [{"k": 1, "v": 4}])
        deployment.step()
        assert rules(deployment.kept[0]) == found
        session.drain(timeout=30)
        assert sorted(row["w"] for row in session.results("large")) == [3, 4, 5]
        assert sum(row["n"] for row in session.results("small")) == 3


@pytest.mark.parametrize("forgetful", [False, True])
def test_breaks_are_set_and_healed_while_it_runs_and_lose_nothing(forgetful: bool) -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(TEXT)
        deployment: Any = session.deployment
        deployment.forgetful = forgetful
        cut = []
        for number, statement in enumerate(
            (
                "ALTER SYSTEM SET breaks = 'everywhere'",
                "ALTER QUERY large SET breaks = 'none'",
                "ALTER QUERY large SET breaks = 'everywhere'",
                "ALTER SYSTEM SET breaks = 'none'; ALTER QUERY large SET breaks = 'none'",
            )
        ):
            session.execute(statement)
            session.push("s", [{"k": 1, "v": number}])
            deployment.step()
            cut.append(
                sum(row.selection == "SOURCE-VIRTUAL" for row in deployment.kept[0].engine.dispatch.table.rows.values())
            )
        assert cut[0] == cut[2] > cut[1] > cut[3] == 0
        session.drain(timeout=30)
        assert sorted(row["w"] for row in session.results("large")) == [1, 2, 3, 4]
        assert sum(row["n"] for row in session.results("small")) == 4


JOINED = """
CREATE STREAM l (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM r (at TIMESTAMP, k INT, w INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY q AS SELECT l.k AS k, sum(v + w) AS s FROM l [RANGE 1 MINUTE], r [RANGE 1 MINUTE]
  WHERE l.k = r.k AND v < w GROUP BY l.k INTO MEMORY;
"""


@pytest.mark.parametrize("forgetful", [False, True])
def test_arcs_are_cut_by_the_kind_of_the_operator_before_or_behind_them(forgetful: bool) -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(JOINED)
        deployment: Any = session.deployment
        deployment.forgetful = forgetful
        cut = {}
        for second, places in enumerate(
            ("none", "before join", "after join", "Before  join, behind JOIN", "before aggregate", "everywhere")
        ):
            session.execute(f"ALTER QUERY q SET breaks = '{places}'")
            for stream, column in (("l", "v"), ("r", "w")):
                session.push(stream, [{"at": f"2026-01-01 00:00:0{second}", "k": 1, column: second + (stream == "r")}])
            deployment.step()
            strategies = deployment.kept[0].engine.dispatch
            kinds = {vertex.id: vertex.spec.__struct_config__.tag for vertex in strategies._graph}
            origins = {vertex.id: vertex.inputs for vertex in strategies._graph}
            cut[places] = {(kinds[origins[name][port]], kinds[name]) for name, port in strategies._breaks}
        assert cut["none"] == set()
        assert {reader for _, reader in cut["before join"]} == {"join"}
        assert {origin for origin, _ in cut["after join"]} == {"join"}
        assert cut["Before  join, behind JOIN"] == cut["before join"] | cut["after join"]
        assert all(reader.endswith("aggregate") for _, reader in cut["before aggregate"])
        assert cut["before aggregate"]
        assert cut["everywhere"] > cut["Before  join, behind JOIN"] | cut["before aggregate"]
        session.drain(timeout=30)
        assert [row["s"] for row in session.results("q")] == [
            sum(v + w for v in range(6) for w in range(1, 7) if v < w)
        ]


@pytest.mark.parametrize(
    ("places", "message"),
    [("between join", "breaks cannot be 'between join'"), ("before joins", "there is no kind of operator 'joins'")],
)
def test_a_place_that_does_not_exist_is_named(places: str, message: str) -> None:
    with Session(host="local") as session, pytest.raises(HeadraceError, match=message):
        session.execute(f"ALTER SYSTEM SET breaks = '{places}'")


def rules(bucket: Bucket) -> dict[str, str]:
    """The rules of the operators."""
    return {
        state: row.selection
        for state, row in bucket.engine.dispatch.table.rows.items()
        if row.pred and row.selection != "FORK"
    }
