"""A broker of Apache Kafka on this machine, for the tests of this folder; `tests/kafka/setup` fetches it."""

import importlib
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/kafka/" in str(item.path):
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """The address of a broker that lives as long as the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        parts = importlib.import_module("benches.parts.broker")
    if (reason := parts.missing()) is not None:
        pytest.skip(reason)
    server = parts.Broker(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        yield server.address
    finally:
        server.close()


@pytest.fixture(autouse=True, scope="session")
def quick_java():
    """Let JVMs compile quickly rather than well, as in tests/spark."""
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_SUBMIT_OPTS" not in os.environ:
            patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="session")
def spark(quick_java):
    from headrace.hosts.spark.starting.context import session_for

    session = session_for()
    yield session
    session.stop()
