"""How a broker of Apache Kafka is started; `tests/kafka/setup` fetches it."""

from pathlib import Path

from headrace.cli import java

JARS = Path(__file__).parents[2] / ".kafka"
#: Why there is no broker, for the message of a skipped test.
MISSING = "no Kafka server here: run tests/kafka/setup"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{control}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{control}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
"""


def is_installed() -> bool:
    return (JARS / "stamp").exists()


def commands(settings: Path, *, host: str, port: int, control: int, logs: Path) -> tuple[list[str], list[str]]:
    """Write the settings of a broker; return the command that prepares its disk, and the one that runs it."""
    settings.write_text(SETTINGS.format(host=host, port=port, control=control, logs=logs))
    program = [str(java.prepare() / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    program += ["-cp", f"{JARS}/*"]
    identity = ["-t", "AAAAAAAAAAAAAAAAAAAAAQ"]
    prepare = [*program, "kafka.tools.StorageTool", "format", "--standalone", *identity, "-c", str(settings)]
    return prepare, [*program, "kafka.Kafka", str(settings)]
