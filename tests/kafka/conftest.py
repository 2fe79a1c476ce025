"""A broker of Apache Kafka on this machine, for the tests of this folder; `tests/kafka/setup` fetches it."""

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from headrace.cli import java

JARS = Path(__file__).parents[2] / ".kafka"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/kafka/" in str(item.path):
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """The address of a broker that lives as long as the tests."""
    admin = pytest.importorskip("confluent_kafka.admin", reason="the Kafka client is not installed: tests/kafka/setup")
    if not (JARS / "stamp").exists():
        pytest.skip("no Kafka server here: run tests/kafka/setup")
    directory = tmp_path_factory.mktemp("kafka")
    port, control = free_ports(2)
    settings = directory / "server.properties"
    settings.write_text(SETTINGS.format(port=port, control=control, directory=directory))
    command = [
        str(java.prepare() / "bin" / "java"),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{JARS}/*",
    ]
    with (directory / "output.txt").open("wb") as output:
        form = [
            *command,
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            "-t",
            "AAAAAAAAAAAAAAAAAAAAAQ",
            "-c",
            str(settings),
        ]
        subprocess.run(form, stdout=output, stderr=output, check=True)
        server = subprocess.Popen([*command, "kafka.Kafka", str(settings)], stdout=output, stderr=output)
        try:
            wait_for(port, server)
            address = f"127.0.0.1:{port}"
            admin.AdminClient({"bootstrap.servers": address}).list_topics(timeout=60)
            yield address
        finally:
            server.terminate()
            server.wait(60)


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


def wait_for(port, server, seconds=120.0):
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert server.poll() is None, "the broker has ended"
            assert time.monotonic() < deadline, "the broker did not start"
            time.sleep(0.1)
