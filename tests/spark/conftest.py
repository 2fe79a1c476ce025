"""Tests on Spark: most share a Spark session, some start deployments of their own and kill them (tests/conftest.py)."""

import os

import pytest

#: Tests run for seconds, too short for Java's optimizing compiler: without it a start takes about half the CPU time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(autouse=True, scope="session")
def quick_java():
    """Let JVMs compile quickly rather than well."""
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_SUBMIT_OPTS" not in os.environ:
            patch.setenv("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
        yield


@pytest.fixture(scope="session")
def spark(quick_java):
    from headrace.hosts.spark.starting.context import session_for

    session = session_for()
    yield session
    session.stop()
