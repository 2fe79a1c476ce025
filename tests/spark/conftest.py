"""Tests on Spark, in two groups that may run at the same time: one shares a Spark session, one kills processes of its own."""

import pytest

#: Tests that start a deployment in another process in order to kill it; they mostly wait for its start.
KILLING = ("test_crashes", "test_rule_crashes", "test_promises_on_spark", "test_killed_at_random_moments")


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))
            group = "killing" if any(name in item.nodeid for name in KILLING) else "sharing"
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark():
    from headrace.hosts.spark.host import spark_session

    session = spark_session()
    yield session
    session.stop()
