"""An ingest task and a bucket as Spark calls them, with a micro-batch and a store in memory."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.errors import HeadraceError
from headrace.hosts.spark import processor
from headrace.hosts.spark.processor import BucketProcessor
from headrace.hosts.spark.source import HeadraceReader
from headrace.model.allowed_python import VARIABLE, Allowed
from headrace.session import Session
from headrace.worker.bundles import unbundled
from headrace.worker.wire import Kind, Row, decode_page, from_spark

STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM FILES (path '{folder}/in', format 'csv');"
QUERIES = """CREATE QUERY large AS SELECT k, v FROM s WHERE v > 10 INTO MEMORY;
CREATE QUERY sums AS SELECT k, sum(v) AS total FROM s [RANGE 1 SECOND] GROUP BY k INTO MEMORY;"""


class Values(dict[tuple[str], tuple[bytes]]):
    """A map of Spark's state store."""

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        return self.get(key)

    updateValue = dict.__setitem__
    removeKey = dict.__delitem__


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of a stream, in a task of micro-batch 0."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(
        "at,k,v\n2026-01-01 00:00:00,1,5\n2026-01-01 00:00:00,2,20\n2026-01-01 00:00:00,1,30\n2026-01-01 00:00:09,1,0\n"
    )
    properties = {"streaming.sql.batchId": "0", "spark.jobGroup.id": "run"}
    task = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: 0)
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    return tmp_path


def run(folder: Path, statements: str) -> tuple[list[Row], Values]:
    """Run the first micro-batch of some statements; return what goes to the driver, and what is stored."""
    checkpoint = folder / "state"
    with Session(checkpoint, host="local") as session:
        session.execute(STREAM.format(folder=folder) + statements)
        python = json.dumps({"modules": [], "folders": [str(folder)]})
        options = {"directory": str(checkpoint), "buckets": "[0]", "parallel": "1", "limit": "100", "page": "100"}
        reader = HeadraceReader({**options, "storage": "{}", "python": python})
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        sent = [
            row for task in reader.partitions(start, end) for batch in reader.read(task) for row in batch.to_pylist()
        ]
        values = Values()
        client = SimpleNamespace(_send_proto_message=None, _receive_proto_message=None)
        handle: Any = SimpleNamespace(getMapState=lambda *_: values, _statefulProcessorApiClient=client)
        task = BucketProcessor(str(checkpoint), Allowed(), {}, [0], 1, is_local=True)
        task.init(handle)
        given = list(task.handleInputRows((0,), iter(SparkRow(**row) for row in sent), None))
        return unbundled(from_spark(given)), values


def test_a_micro_batch_gives_results_a_report_and_state(folder: Path) -> None:
    rows, values = run(folder, QUERIES)
    pages = [decode_page(row).visible() for row in rows if row.kind is Kind.RESULT]
    results = {tuple(page.columns): sorted(page.rows()) for page in pages}
    assert results == {("k", "v"): [(1, 30), (2, 20)], ("k", "total"): [(1, 35), (2, 20)]}
    assert [row.n for row in rows if row.kind is Kind.REPORT] == [2]
    assert ("manifest",) in values


def test_an_error_in_a_task_names_the_queries_that_it_is_due_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "odd.py").write_text("def check(v):\n    raise ZeroDivisionError(v)\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv(VARIABLE, "odd")
    function = "CREATE FUNCTION checked(INT) RETURNS BOOLEAN FROM PYTHON 'odd:check';"
    query = "CREATE QUERY odd AS SELECT k FROM s WHERE checked(v) INTO MEMORY;"
    with pytest.raises(HeadraceError, match="ZeroDivisionError") as raised:
        run(folder, function + query)
    assert [name for name, _ in raised.value.culprits] == ["odd"]
    assert any("headrace culprits" in note for note in raised.value.__notes__)


def test_what_a_worker_imported_is_excluded_from_garbage_collection_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("it counts all objects, in each task"))
    monkeypatch.setattr(processor, "_is_frozen", False)
    run(folder, QUERIES)
    (folder / "state").rename(folder / "before")
    run(folder, QUERIES)
    assert frozen == [1]
