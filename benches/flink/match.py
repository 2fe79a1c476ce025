"""Detect a pattern in CSV files of bids with Flink SQL, in an environment without Headrace.

`python match.py JOB.json` reads the job: `bids` (a directory), `found` (a directory for the results), `columns` of the
results, `query`, and `runs`, each with a name and a directory of bids. It prints a JSON line for each run: the seconds
from the start of the job to its end, `read`, pairs of seconds and bids that had been read by then, and the processor
time of this process and its JVM.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benches.flink import counting
from benches.parts import processes  # it needs nothing that is not here

_BIDS = """
CREATE TABLE bids (`at` TIMESTAMP(3), auction BIGINT, bidder BIGINT, price DOUBLE, channel STRING,
                   WATERMARK FOR `at` AS `at` - INTERVAL '0.001' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')
"""
_FOUND = "CREATE TABLE found ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"


def main(job: dict[str, Any]) -> None:
    """Run all runs in one JVM, one after the other."""
    for run in job["runs"]:
        port = counting.free_port()
        environment = _environment(job["parallelism"], port)
        environment.execute_sql(_BIDS.format(path=run["bids"]))
        environment.execute_sql(_FOUND.format(columns=job["columns"], path=run["found"]))
        began, before = time.perf_counter(), processes.all_processes()
        took = counting.run(environment, f"INSERT INTO found {job['query']}", port, ["bids"], began)
        ticks = sum(processes.spent(os.getpid(), before, processes.all_processes()).values())
        sys.stdout.write(json.dumps({"name": run["name"], **took, "cpu": ticks / processes.RATE}) + "\n")
        sys.stdout.flush()


def _environment(parallelism: int, port: int) -> TableEnvironment:
    settings = Configuration()
    for name, value in counting.SETTINGS.items():
        settings.set_string(name, value)
    settings.set_string("parallelism.default", str(parallelism))
    for address in (
        "rest.address",
        "rest.bind-address",
        "jobmanager.bind-host",
        "taskmanager.bind-host",
        "taskmanager.host",
    ):
        settings.set_string(address, "127.0.0.1")
    settings.set_string("rest.port", str(port))
    settings.set_string("rest.bind-port", str(port))
    settings.set_string("table.local-time-zone", "UTC")
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
