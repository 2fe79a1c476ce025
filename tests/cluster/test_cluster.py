"""Headrace on a Spark cluster whose machines share one folder and are lost while they work: results stay exact."""

import pytest
from tests.cluster.marked import marks
from tests.spark.crash_case import SCRIPT, expected, write_data, written

#: Counts by an aggregate that tells where it ran; the oracle has count() in its place.
MARKED = """
CREATE QUERY marked AS SELECT auction, {count}(price) AS n, window_end FROM bids [RANGE 2 SECONDS] GROUP BY auction
  INTO FILES (path '{out}/marked', format 'parquet');
"""
AGGREGATE = "CREATE AGGREGATE marked_count(DOUBLE) RETURNS BIGINT FROM PYTHON 'tests.cluster.marked:Count';"


class Case:
    """The queries of the crash tests, with files and a checkpoint of their own in the common folder."""

    def __init__(self, folder):
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        frames = write_data(folder / "data", 5)
        script = SCRIPT.format(data=folder / "data", out=self.out)
        self.text = AGGREGATE + script + MARKED.format(count="marked_count", out=self.out)
        self.answers = expected(script + MARKED.format(count="count", out=self.out), frames)

    def start(self, driver, limit):
        driver.call("start", checkpoint=str(self.checkpoint), text=self.text, limit=limit, buckets=4)

    def finish(self, driver):
        """Wait for the end; the results are exact, and Spark's query was not started again."""
        outcome = driver.call("drain", checkpoint=str(self.checkpoint))
        assert not outcome["is_restarted"]
        self.check()

    def check(self):
        assert written(self.out, self.answers) == self.answers


@pytest.fixture
def case(cluster, request):
    return Case(cluster.common / request.node.name)


def test_queries_on_a_cluster_are_exact(cluster, driver, case):
    case.start(driver, limit=400)
    case.finish(driver)
    assert {mark.address for mark in marks(cluster.common)} == set(driver.call("executors"))
    assert driver.call("setting", name="spark.sql.shuffle.orderIndependentChecksum.enabled") != "false"
