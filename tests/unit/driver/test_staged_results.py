"""Large results that tasks write to files, and functions on the driver that take results."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.commands.running import Running
from headrace.connectors.spool import Spooled, exchange_spool
from headrace.driver.delivery import Delivery
from headrace.driver.staged_results import STAGE_BYTES, Allowance, BucketStager, IngestStager, Writer, allowance_of
from headrace.model.page import Page, page_of
from headrace.session import Session
from headrace.worker.bundles import bundled, unbundled
from headrace.worker.wire import Kind, Row

QUERY = """CREATE STREAM t (at TIMESTAMP, n BIGINT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY q AS SELECT n FROM t INTO FILES (path '{path}', format 'json')"""


@pytest.fixture
def running(tmp_path: Path) -> Running:
    with Session(tmp_path / "run", host="local") as session:
        session.execute(QUERY.format(path=tmp_path / "out"), start=False)
        return session._running()


def large(running: Running) -> Page:
    count = STAGE_BYTES // 8
    return page_of(running.queries[0].schema, [{"n": n} for n in range(count)], list(range(count)))


def test_large_results_of_a_query_with_a_subscriber_go_to_the_driver(tmp_path: Path, running: Running) -> None:
    output, page = running.queries[0].output, large(running)
    (staged,) = IngestStager(tmp_path / "run", "a", running)(0, output, [page]) or []
    assert staged.kind is Kind.STAGED
    with Session(tmp_path / "run", host="local") as session:
        session.subscribe("q", lambda batch, rows: None)
        assert IngestStager(tmp_path / "run", "b", running)(0, output, [page]) is None
    with Session(tmp_path / "run", host="local") as session:
        session.execute("DROP QUERY IF EXISTS other", start=False)  # it owns the checkpoint now, and nobody subscribes
        assert IngestStager(tmp_path / "run", "c", running)(0, output, [page]) is not None


def test_a_subscriber_gets_all_results_of_a_micro_batch_or_none(tmp_path: Path, running: Running) -> None:
    delivery, batches = Delivery(tmp_path / "run"), list[int]()
    delivery.subscribers["q"] = [lambda batch, pages: batches.append(batch)]
    output, page = running.queries[0].output, large(running)
    (staged,) = IngestStager(tmp_path / "run", "a", running)(0, output, [page]) or []
    delivery.deliver(0, [staged, Row(1, Kind.RESULT, output, 0, 1, Page(page.rows.head(1)).encode())], running)
    delivery.deliver(1, [Row(1, Kind.RESULT, output, 0, len(page), page.encode())], running)
    delivery.close()
    assert batches == [1]


def test_a_subscriber_that_fails_stops_nobody(
    tmp_path: Path, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    delivery, counts = Delivery(tmp_path / "run"), list[int]()

    def fail(batch: int, pages: Sequence[Page]) -> None:
        raise ValueError("no disk")

    delivery.subscribers["q"] = [fail, lambda batch, pages: counts.append(sum(map(len, pages)))]
    page = large(running)
    with caplog.at_level(logging.ERROR):
        delivery.deliver(0, [Row(0, Kind.RESULT, running.queries[0].output, 0, len(page), page.encode())], running)
    delivery.close()
    assert counts == [len(page)]
    assert delivery.statistics.queries["q"].subscriber_errors == 1
    assert "a subscriber of q raised" in caplog.text


def test_a_task_sends_a_few_small_pages_and_writes_the_rest(tmp_path: Path, running: Running) -> None:
    output, page = running.queries[0].output, large(running)
    few = Page(page.rows.head(3))
    sent = finished(tmp_path / "run", running, [(output, few), ("exchange-small", few), ("exchange-large", page)])
    assert {row.name: row.kind for row in sent} == {
        output: Kind.RESULT,
        "exchange-small": Kind.RESULT,
        "exchange-large": Kind.STAGED,
    }
    (part,) = exchange_spool("large", tmp_path / "run").all()
    assert part == Spooled(5, len(page), "t1-1")


def test_the_pages_of_all_buckets_of_a_task_are_one_page_or_one_file(tmp_path: Path, running: Running) -> None:
    output, page = running.queries[0].output, large(running)
    few = Page(page.rows.head(3))
    (small,) = finished(tmp_path / "run", running, [(output, few), (output, few)])
    assert (small.kind, small.n) == (Kind.RESULT, 6)
    (note,) = finished(tmp_path / "run", running, [(output, few), (output, page), (output, few)])
    assert (note.kind, note.n) == (Kind.STAGED, len(page) + 6)
    assert [path.name for path in (tmp_path / "out" / "_staging").iterdir()] == ["b5-1-1.json"]
    assert finished(tmp_path / "run", running, [(output, few), (output, page), (output, few)]) == [note]


@pytest.mark.parametrize("tasks", [1, 2, 32, 1000])
def test_what_tasks_send_to_the_driver_is_limited(tmp_path: Path, running: Running, tasks: int) -> None:
    page = Page(large(running).rows.head(300))
    ends = [(f"exchange-{number}", page) for number in range(100)]
    sent = finished(tmp_path / "run", running, ends, allowance_of(tasks))
    pages = [row for row in sent if row.kind is Kind.RESULT]
    assert len(pages) + len(exchange_folders(tmp_path / "run")) == 100
    assert len(bundled(sent).payload) * tasks <= max(128 * 1024, 4096 * tasks)
    few = [(f"exchange-{number}", Page(page.rows.head(3))) for number in range(100)]
    sent = finished(tmp_path / "run", running, few, allowance_of(tasks))
    assert all(row.kind is Kind.RESULT for row in sent), "files cost more"


@pytest.mark.parametrize("rows", [1, 10, 40, 100, 300, 3000])
@pytest.mark.parametrize("ends", [1, 8, 50])
def test_a_task_on_a_cluster_sends_at_most_8_kb(tmp_path: Path, running: Running, ends: int, rows: int) -> None:
    pages = [(f"exchange-{number}", Page(large(running).rows.slice(number * 31, rows))) for number in range(ends)]
    sent = finished(tmp_path / "run", running, pages, allowance_of(2, is_local=False))
    bundle = bundled(sent)
    assert len(bundle.payload) <= 8000
    assert unbundled([bundle]) == sent


def finished(
    checkpoint: Path,
    running: Running,
    ends: Sequence[tuple[str, Page]],
    allowance: Allowance | None = None,
) -> Sequence[Row]:
    """Return what a task sends whose buckets give these pages, one each."""
    stager = BucketStager(Writer(checkpoint, "b5-1", batch=5, task=1), allowance or allowance_of(2))
    early = []
    for number, (vertex, page) in enumerate(ends):
        rows = stager.of(InForce(running))(number, vertex, [page])
        assert rows is not None
        early += rows
    return [*early, *stager.finish()]


def exchange_folders(checkpoint: Path) -> list[str]:
    return [path.name for path in (checkpoint / "exchange").iterdir()]


@dataclass
class InForce:
    running: Running
