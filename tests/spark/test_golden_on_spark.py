"""The golden scripts of queries, all in one deployment on Spark."""

from pathlib import Path

from headrace.session import Session
from headrace.testing.golden.runner import run_together

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "tests" / "golden" / "queries").glob("*.txt"))


def test_golden_queries_give_the_same_on_spark(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "tests" / "golden")  # the scripts name files in data/
    for module in sorted((ROOT / "examples").glob("*.py")):  # functions that the scripts name
        spark.sparkContext.addPyFile(str(module))
    scripts = [path.read_text() for path in SCRIPTS]
    with Session(tmp_path, buckets=3) as session:
        found = run_together(scripts, session, timeout=250)
    assert found == scripts
