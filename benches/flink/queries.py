"""Run queries with Flink SQL, one after the other in one JVM, in an environment without Headrace.

Each line of the input is a job as JSON: `tables` (statements that create tables), `statement` (an INSERT),
`checkpoints` (a directory), `parallelism`, and `streams`, those tables whose tuples are counted. For each job a JSON
line is printed: `seconds` from the first statement to the end of the job, and `read`, pairs of seconds and tuples that
had been read by then, as Flink's metrics have them. A job that fails gives `error`. The process ends with its input.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benches.flink import counting

_SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    # as in the settings of Nexmark for Flink
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    # results are exactly once, as those of Headrace and Spark
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "state.backend.type": "hashmap",
    # a job that fails ends and says why, instead of starting again for ever
    "restart-strategy.type": "none",
    **counting.SETTINGS,
    "taskmanager.memory.network.max": "256m",
    "taskmanager.memory.managed.size": "256m",
} | dict.fromkeys(
    ("rest.address", "rest.bind-address", "jobmanager.bind-host", "taskmanager.bind-host", "taskmanager.host"),
    "127.0.0.1",
)


def main() -> None:
    """Run the jobs of the input."""
    for line in sys.stdin:
        try:
            report = _run(json.loads(line))
        except Exception as error:  # whatever Java throws
            report = {"error": str(error)}
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


def _run(job: dict[str, Any]) -> dict[str, Any]:
    port = counting.free_port()
    began = time.perf_counter()
    environment = _environment(job, port)
    for table in job["tables"]:
        environment.execute_sql(table)
    return counting.run(environment, job["statement"], port, job["streams"], began)


def _environment(job: dict[str, Any], port: int) -> TableEnvironment:
    settings = Configuration()
    for name, value in _SETTINGS.items():
        settings.set_string(name, value)
    settings.set_string("rest.port", str(port))
    settings.set_string("rest.bind-port", str(port))
    settings.set_string("parallelism.default", str(job["parallelism"]))
    settings.set_string("taskmanager.numberOfTaskSlots", str(job["parallelism"]))
    settings.set_string("execution.checkpointing.dir", f"file://{job['checkpoints']}")
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )


if __name__ == "__main__":
    main()
