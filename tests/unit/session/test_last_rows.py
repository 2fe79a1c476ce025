"""While a deployment is drained, streams end once, and what depends on their ends comes."""

from pathlib import Path
from typing import Any

import pytest

from headrace.commands.command import Drain
from headrace.hosts.local import LocalDeployment
from headrace.session import Session


@pytest.mark.parametrize("name", ["b", "a"], ids=["behind it", "before it"])
def test_a_file_that_comes_after_the_end_of_its_stream_is_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "aa.csv").write_text("at,k,v\n2026-01-01 00:00:01,1,1\n2026-01-01 00:00:02,2,5\n")
    with Session(host="local", buckets=3) as session:
        session.execute(
            f"""CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at
              FROM FILES (path '{tmp_path / "in"}', format 'csv');
            CREATE QUERY late AS SELECT * FROM s.late INTO MEMORY;
            CREATE QUERY q AS SELECT n, sum(v) AS v FROM
              (SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 1 MINUTE] GROUP BY k) [RANGE 1 MINUTE] GROUP BY n
              INTO MEMORY"""
        )
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.send(Drain())
        steps = 0
        while deployment.step():
            steps += 1
            if steps == 1:
                (tmp_path / "in" / f"{name}.csv").write_text("at,k,v\n2026-01-01 00:00:03,3,7\n")
        assert steps > 1, "there was a micro-batch after the one in which the stream ended"
        assert session.results("q") == [{"n": 1, "v": 6}]
        assert session.results("late") == []
        assert session.statistics().streams["s"].tuples == 2


def test_what_follows_from_failed_actions_comes_before_the_end() -> None:
    def refuse(found: dict[str, Any], key: str) -> None:
        raise ValueError("no")

    with Session(host="local") as session:
        session.register("refuse", refuse)
        session.execute(
            """CREATE STREAM s (x INT) FROM MEMORY;
            CREATE EVENT seen AS SELECT x FROM s;
            CREATE RULE stern WITH (tries 1) ON seen DO CALL refuse;
            CREATE EVENT given_up AS SELECT action FROM stern.failed;
            CREATE EVENT told (action STRING);
            CREATE RULE tell ON given_up DO RAISE EVENT told(given_up.action);
            CREATE QUERY all_told AS SELECT count(*) AS n FROM told [RANGE 1 DAY] INTO MEMORY"""
        )
        session.push("s", [{"x": x} for x in range(3)])
        session.drain(30)
        assert session.results("all_told") == [{"n": 3}]
