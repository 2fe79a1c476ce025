"""An imitation of Kubernetes for the tests of this folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.imitation import Kubernetes


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests, before pytest chooses by marks."""
    if "tests/kubernetes/" in str(item.path):
        item.add_marker(pytest.mark.cluster)
        item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    """An imitation in which nothing runs."""
    running = Kubernetes(tmp_path)
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield running
    finally:
        running.close()
