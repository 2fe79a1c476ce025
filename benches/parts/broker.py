"""A broker of Apache Kafka on this machine that can be killed and started again; `tests/kafka/setup` fetches it."""

from __future__ import annotations

import importlib
import importlib.util
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.kafka import server


def missing() -> str | None:
    """Return what a broker lacks on this machine; None if nothing."""
    if importlib.util.find_spec("confluent_kafka") is None:
        return "the Kafka client is not installed: tests/kafka/setup"
    return None if server.is_installed() else server.MISSING


class Broker:
    """A broker with its own folder: what it holds is there again when it is started after a kill."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, control = _free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self._output = directory / "output.txt"
        settings, logs = directory / "server.properties", directory / "log"
        prepare, self._run = server.commands(settings, host="127.0.0.1", port=self.port, control=control, logs=logs)
        self._process: subprocess.Popen[bytes] | None = None
        with self._output.open("ab") as output:
            subprocess.run(prepare, stdout=output, stderr=output, check=True)

    def start(self, seconds: float = 120.0) -> None:
        """Start the server, and wait until it answers."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._run, stdout=output, stderr=output)
        deadline = time.monotonic() + seconds
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker does not start: {self._output.read_text(errors='replace')[-1000:]}")
            time.sleep(0.1)
        _library("confluent_kafka.admin").AdminClient(self._client()).list_topics(timeout=60)

    def signal(self, number: int) -> None:
        """Send a signal to the server, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the server without a chance to tidy up."""
        self.signal(signal.SIGKILL)
        self._wait()

    def close(self) -> None:
        """End the server."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self._wait()

    def make(self, topic: str, partitions: int) -> None:
        """Make a topic that forgets nothing."""
        admin = _library("confluent_kafka.admin")
        new = admin.NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
        client = admin.AdminClient(self._client())  # nothing answers when it is gone
        client.create_topics([new])[topic].result()

    def values(self, topic: str, partitions: int) -> list[bytes]:
        """Return what the topic holds for those who read what is committed."""
        kafka = _library("confluent_kafka")
        settings = {"bootstrap.servers": self.address, "group.id": "all", "enable.partition.eof": True}
        consumer = kafka.Consumer(settings)
        consumer.assign([kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)])
        values, ended = [], set[int]()
        while len(ended) < partitions:
            for message in consumer.consume(1000, 1):
                if message.error() is None:
                    values.append(message.value())
                elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        consumer.close()
        return values

    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 3}  # errors

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _wait(self) -> None:
        if self._process is not None:
            self._process.wait(60)


def _library(name: str) -> Any:
    """Return a module of the client, which need not be installed where this is checked."""
    return importlib.import_module(name)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held_port.getsockname()[1] for held_port in held]
    for held_port in held:
        held_port.close()
    return ports
