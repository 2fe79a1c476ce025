import datetime as dt
from pathlib import Path

from headrace.driver.intake import Intake
from headrace.driver.offset import START
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


def test_a_repeated_micro_batch_is_divided_as_it_was(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute("""
            CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY q AS SELECT k FROM s INTO MEMORY
        """)
        for second in range(6):
            session.push("s", [{"at": BEGIN + dt.timedelta(seconds=second), "k": 1}])
        planned = Intake(tmp_path, parallel=3, limit=100, buckets=[4, 7])
        end = planned.latest(START, 0)
        assert (end.parallel, end.buckets) == (3, [4, 7])
        tasks = planned.tasks(START, end)
        assert len(tasks) == 3
        assert Intake(tmp_path, parallel=1, limit=100).tasks(START, end) == tasks


def test_tasks_have_the_splits_of_a_stream_in_the_order_of_its_records(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        for name in ("a", "b", "c"):
            session.execute(f"""
                CREATE STREAM {name} (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
                CREATE QUERY q{name} AS SELECT k FROM {name} INTO MEMORY
            """)
            for second in range({"a": 1, "b": 5, "c": 2}[name]):
                session.push(name, [{"at": BEGIN + dt.timedelta(seconds=second), "k": 1}])
        intake = Intake(tmp_path, parallel=3, limit=100)
        work = [work for task in intake.tasks(START, intake.latest(START, 0)) for work in task.work]
        for name in ("a", "b", "c"):
            splits = [piece.split for piece in work if piece.stream == name]
            assert splits == sorted(splits)
