"""Tests on Spark in two groups that may run at once: one shares a Spark session, one kills its own processes."""

import os

import pytest

#: Tests run for seconds, too short for Java's optimizing compiler: without it a start takes about half the CPU time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"
#: Tests that start a deployment in another process in order to kill it; they mostly wait for its start.
KILLING = (
    "test_crashes",
    "test_migration_crashes",
    "test_rule_crashes",
    "test_chaos",
    "test_cores",
    "test_promises_on_spark",
    "test_replacing_on_spark",
    "test_server_on_spark",
    "test_killed_at_random_moments",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))
            group = "killing" if any(name in item.nodeid for name in KILLING) else "sharing"
            item.add_marker(pytest.mark.xdist_group(group))


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
