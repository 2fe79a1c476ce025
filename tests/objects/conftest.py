"""An imitation of S3 for the tests of this folder; `tests/objects/setup` fetches it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.objects.imitation import BUCKET, Proxy, imitation, reason_to_skip, s3_environment
from tests.objects.others import PROGRAMS, URLS, other_imitation, why_not

from headrace.storage.location import location

OTHERS = [kind for kind in PROGRAMS if why_not(kind) is None]


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


@pytest.fixture(scope="session")
def others() -> Iterator[dict[str, Mapping[str, str]]]:
    """The imitations of other stores that this machine has: the variables by which clients find them."""
    with ExitStack() as stack:
        yield {kind: stack.enter_context(other_imitation(kind)) for kind in OTHERS}


@pytest.fixture(params=["s3", *OTHERS])
def place(
    request: pytest.FixtureRequest,
    proxy: Proxy,
    others: dict[str, Mapping[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """An empty place in an imitation."""
    if request.param == "s3":
        return location(f"s3://{BUCKET}/{tmp_path.name}")
    if "spark" in request.keywords:
        pytest.skip("Spark's client does not speak with this imitation")
    for name, value in others[request.param].items():
        monkeypatch.setenv(name, value)
    return location(f"{URLS[request.param]}/{tmp_path.name}")
