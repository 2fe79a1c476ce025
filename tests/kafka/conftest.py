"""A broker of Apache Kafka on this machine, for the tests of this folder; `tests/kafka/setup` fetches it."""

import os
import socket
import subprocess
import time

import pytest
from tests.kafka import server


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/kafka/" in str(item.path):
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """The address of a broker that lives as long as the tests."""
    admin = pytest.importorskip("confluent_kafka.admin", reason="the Kafka client is not installed: tests/kafka/setup")
    if not server.is_installed():
        pytest.skip(server.MISSING)
    directory = tmp_path_factory.mktemp("kafka")
    port, control = free_ports(2)
    prepare, run = server.commands(
        directory / "server.properties", host="127.0.0.1", port=port, control=control, logs=directory / "log"
    )
    with (directory / "output.txt").open("wb") as output:
        subprocess.run(prepare, stdout=output, stderr=output, check=True)
        process = subprocess.Popen(run, stdout=output, stderr=output)
        try:
            wait_for(port, process)
            address = f"127.0.0.1:{port}"
            admin.AdminClient({"bootstrap.servers": address}).list_topics(timeout=60)
            yield address
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(autouse=True, scope="session")
def quick_java():
    """Let JVMs compile quickly rather than well, as in tests/spark."""
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_SUBMIT_OPTS" not in os.environ:
            patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="session")
def spark(quick_java):
    from headrace.hosts.spark.host import spark_session

    session = spark_session()
    yield session
    session.stop()


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def wait_for(port, process, seconds=120.0):
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, "the broker has ended"
            assert time.monotonic() < deadline, "the broker did not start"
            time.sleep(0.1)
