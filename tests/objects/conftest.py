"""An imitation of S3 for the tests of this folder; `tests/objects/setup` fetches it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.objects.imitation import BUCKET, Proxy, imitation, reason_to_skip, s3_environment

from headrace.storage.location import location


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/objects/" in str(item.path):
            item.add_marker(pytest.mark.objects)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def server() -> Iterator[Proxy]:
    """An imitation of S3 that lives as long as the tests."""
    pytest.importorskip("obstore", reason="the client of object stores is not installed: tests/objects/setup")
    if why := reason_to_skip():
        pytest.skip(why)
    with imitation() as running:
        yield running


@pytest.fixture
def proxy(server: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The imitation without faults, where clients of this process find it."""
    for name, value in s3_environment(server).items():
        monkeypatch.setenv(name, value)
    yield server
    server.heal()


@pytest.fixture
def place(proxy: Proxy, tmp_path: Path) -> Path:
    """An empty place in the imitation."""
    return location(f"s3://{BUCKET}/{tmp_path.name}")
