"""From topic to topic on a cluster that loses a machine, or `--losses` of them: each result is there once."""

import pytest
from tests.cluster.machine import until
from tests.kafka import server
from tests.kafka.test_kafka_topics import expected, readings
from tests.spark.crash_case import newest_batch, wait_for_batches

PORT, CONTROL, PARTITIONS, SECONDS = 9092, 9093, 4, 60
SCRIPT = """
CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM KAFKA (bootstrap '{address}', topic 'probes', format 'json', key 'segment', record_time 'at');
CREATE QUERY speeds AS SELECT segment, avg(speed) AS speed, count(*) AS n, window_end
  FROM probes [RANGE 10 SECONDS] GROUP BY segment
  INTO KAFKA (bootstrap '{address}', topic 'speeds', key 'segment', record_time 'window_end');
CREATE QUERY copies AS SELECT at, segment, speed FROM probes
  INTO KAFKA (bootstrap '{address}', topic 'copies', publishers 2);
"""


@pytest.fixture(scope="module")
def broker(cluster):
    """The address of a broker on a machine of its own."""
    pytest.importorskip("confluent_kafka", reason="the Kafka client is not installed: tests/kafka/setup")
    if not server.is_installed():
        pytest.skip(server.MISSING)
    machine, log = cluster.machine("kafka"), cluster.logs / "kafka.log"
    prepare, run = server.commands(
        cluster.common / "kafka.properties",
        host=machine.address,
        port=PORT,
        control=CONTROL,
        logs=machine.disk / "kafka",
    )
    assert machine.start(prepare, cluster.environ(machine), log).wait(60) == 0
    machine.start(run, cluster.environ(machine), log)
    yield f"{machine.address}:{PORT}"
    machine.switch_off()


def test_a_lost_machine_neither_loses_nor_repeats_a_record(cluster, broker, driver, request):
    losses = request.config.getoption("--losses")
    driver.call(
        "tests.cluster.jobs:make_topics", address=broker, names=["probes", "speeds", "copies"], partitions=PARTITIONS
    )
    driver.call("tests.cluster.jobs:send_readings", address=broker, topic="probes", first=0, last=SECONDS)
    checkpoint = cluster.common / "kafka-checkpoint"
    driver.call(
        "start",
        checkpoint=str(checkpoint),
        text=SCRIPT.format(address=broker),
        limit=400 if losses == 1 else 40,
        buckets=4,
    )
    until(lambda: newest_batch(checkpoint) >= 0, what="a micro-batch")
    for number in range(losses):
        wait_for_batches(checkpoint, 2)
        lost = cluster.workers[number % 2]
        cluster.switch_off(lost)
        cluster.switch_on(lost)
        until(lambda: len(driver.call("executors")) == len(cluster.workers), what="all executors")
    assert not driver.call("drain", checkpoint=str(checkpoint))["is_restarted"]
    sent = driver.call("tests.cluster.jobs:values", address=broker, topic="speeds", partitions=PARTITIONS)
    assert sorted((row["window_end"], row["segment"], row["n"]) for row in sent) == [
        (f"{end.isoformat()}.000000", segment, n) for end, segment, n, _ in expected(SECONDS)
    ]
    copies = driver.call("tests.cluster.jobs:values", address=broker, topic="copies", partitions=PARTITIONS)
    assert len({(row["at"], row["segment"]) for row in copies}) == len(copies) == len(readings(0, SECONDS))
