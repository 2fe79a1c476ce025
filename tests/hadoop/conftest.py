"""HDFS and YARN for the tests of this folder; `tests/hadoop/setup` fetches them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hadoop.server import Hadoop, reason_to_skip

from headrace.storage.location import location


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests, before pytest chooses by marks."""
    if "tests/hadoop/" in str(item.path):
        item.add_marker(pytest.mark.cluster)
        item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """HDFS, which lives as long as the tests."""
    if why := reason_to_skip():
        pytest.skip(why)
    running = Hadoop(tmp_path_factory.mktemp("hadoop"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def place(hadoop: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of HDFS, which clients of this process find."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf))
    return location(f"{hadoop.url}/{tmp_path.name}")
