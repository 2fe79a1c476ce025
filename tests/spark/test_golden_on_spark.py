"""The golden scripts of queries, all in one deployment on Spark, which stops in the middle and starts again."""

from contextlib import ExitStack
from pathlib import Path

from headrace.session import Session
from headrace.testing.golden.runner import run_together

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "tests" / "golden" / "queries").glob("*.txt"))


def test_golden_queries_give_the_same_on_spark_with_a_restart_in_the_middle(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "tests" / "golden")  # the scripts name files in data/
    for module in sorted((ROOT / "examples").glob("*.py")):  # functions that the scripts name
        spark.sparkContext.addPyFile(str(module))
    scripts = [path.read_text() for path in SCRIPTS]
    with ExitStack() as sessions:

        def restart(session):
            session.stop()
            again = sessions.enter_context(Session(tmp_path))
            again.start()
            return again

        first = sessions.enter_context(Session(tmp_path, buckets=3))
        found = run_together(scripts, first, timeout=250, restart=restart)
    assert found == scripts
