"""SPARK sinks: how Spark finds what tasks left, and what becomes of it."""

from pathlib import Path

import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.kinds import delete_staged, make_sink
from headrace.connectors.spark import SPARK_STAGING, url_for_spark
from headrace.model.page import page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.storage import files
from headrace.storage.location import location
from headrace.storage.storage import mounted
from headrace.testing.deployment.disk import SimulatedDisk

SCHEMA = Schema.of(n=Type.BIGINT)


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("/state/a b/x.parquet", "file:///state/a b/x.parquet"),
        ("/state/[1]/%41{x}.parquet", r"file:///state/\[1\]/%41\{x\}.parquet"),
        ("s3://lake/state/a*.parquet", r"s3a://lake/state/a\*.parquet"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net/x"),
    ],
)
def test_spark_reads_a_file_where_it_is_whatever_its_default_file_system(place: str, url: str) -> None:
    assert url_for_spark(location(place)) == url


@pytest.mark.parametrize("remote", [False, True])
def test_what_tasks_left_for_a_dropped_query_goes_and_that_of_others_stays(tmp_path: Path, remote: bool) -> None:
    checkpoint = location("s3://lake/state") if remote else tmp_path
    with mounted(location("s3://lake"), SimulatedDisk()):
        kept, dropped = (make_sink(name, Connector("SPARK", {"format": "x"}), SCHEMA, checkpoint) for name in "kd")
        for sink in (kept, dropped):
            sink.stage(page_of(SCHEMA, [{"n": 1}], [1]), "b7-0-1")  # type: ignore[attr-defined]
        delete_staged(checkpoint, [kept])
        assert files.names(checkpoint / SPARK_STAGING) == ["k"]
        assert files.names(checkpoint / SPARK_STAGING / "k") == ["b7-0-1.parquet"]
        delete_staged(checkpoint, [])
        assert files.names(checkpoint / SPARK_STAGING) == []


def test_the_first_micro_batch_deletes_what_an_earlier_process_left_for_dropped_queries(tmp_path: Path) -> None:
    left = [tmp_path / "sinks" / kind / "gone" / "b1-0-1.parquet" for kind in ("spark", "published")]
    with Session(tmp_path, host="local") as session:
        for path in left:
            files.replace(path, b"rows")
        session.execute("CREATE STREAM s (n INT) FROM MEMORY; CREATE QUERY q AS SELECT n FROM s INTO MEMORY")
        session.push("s", [{"n": 1}])
        session.drain(60)
        assert session.results("q") == [{"n": 1}]
    assert not any(path.parent.exists() for path in left)
