"""One Spark session for all tests of this folder."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark():
    from headrace.hosts.spark.host import spark_session

    session = spark_session()
    yield session
    session.stop()
