import datetime as dt
from pathlib import Path

from headrace.hosts.local import LocalDeployment
from headrace.session import Session

BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
TWO_STAGES = """
    CREATE QUERY q AS
    SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k) [RANGE 20 SECONDS]
    GROUP BY n INTO MEMORY
"""


def test_a_query_that_is_created_again_does_not_read_what_the_dropped_one_exchanged(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        session.execute("CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;" + TWO_STAGES)
        session.push("s", [{"at": BEGIN + dt.timedelta(seconds=i), "k": i % 3} for i in range(15)])
        assert deployment.step()
        assert deployment.offset.exchanges, "the first window is on its way between two buckets"
        session.execute("DROP QUERY q")
        assert deployment.step()
        session.execute(TWO_STAGES)
        assert deployment.step()
        session.push("s", [{"at": BEGIN + dt.timedelta(seconds=15 + i), "k": 7} for i in range(3)])
        session.drain(60)
        assert session.results("q") == [{"n": 3, "c": 1}]
