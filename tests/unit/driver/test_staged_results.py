"""Large results that tasks write to files, and functions on the driver that take results."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.commands.running import Running
from headrace.driver.delivery import Delivery
from headrace.driver.staged_results import STAGE_BYTES, Stager
from headrace.model.page import Page, page_of
from headrace.session import Session
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
    staged = Stager(tmp_path / "run", "a", running)(0, output, [page])
    assert staged is not None
    assert staged.kind is Kind.STAGED
    with Session(tmp_path / "run", host="local") as session:
        session.subscribe("q", lambda batch, rows: None)
        assert Stager(tmp_path / "run", "b", running)(0, output, [page]) is None
    with Session(tmp_path / "run", host="local") as session:
        session.execute("DROP QUERY IF EXISTS other", start=False)  # it owns the checkpoint now, and nobody subscribes
        assert Stager(tmp_path / "run", "c", running)(0, output, [page]) is not None


def test_a_subscriber_gets_all_results_of_a_micro_batch_or_none(tmp_path: Path, running: Running) -> None:
    delivery, batches = Delivery(tmp_path / "run"), list[int]()
    delivery.subscribers["q"] = [lambda batch, pages: batches.append(batch)]
    output, page = running.queries[0].output, large(running)
    staged = Stager(tmp_path / "run", "a", running)(0, output, [page])
    assert staged is not None
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
