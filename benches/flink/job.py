"""Count two directories of JSON files per second with Flink SQL, in an environment without Headrace.

`python job.py FOLDER FAST SLOW NAME=TIMEOUT...` reads FOLDER/fast and FOLDER/slow with watermarks FAST and SLOW seconds
behind the newest tuple. It starts one job for each NAME, with `table.exec.source.idle-timeout` if a TIMEOUT is given.
It prints a JSON line per event: a job runs, or a window's count arrived. It ends when its input does, that is, with the
process that started it.
"""

import datetime as dt
import json
import os
import sys
import threading
import time
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

_STREAM = """
CREATE TABLE {name} (`at` TIMESTAMP(3), n INT, WATERMARK FOR `at` AS `at` - INTERVAL '{behind}' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'file://{folder}/{name}',
      'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601',
      'source.monitor-interval' = '50 ms')
"""
_COUNT = """
SELECT window_end, count(*) AS n
FROM TABLE(TUMBLE(TABLE united, DESCRIPTOR(`at`), INTERVAL '1' SECOND)) GROUP BY window_start, window_end
"""


def main(folder: str, behind: dict[str, int], variants: dict[str, str]) -> None:
    """Run all variants at once, until the reader of the output is gone."""
    for name, timeout in variants.items():
        threading.Thread(target=_run, args=(name, folder, behind, timeout), daemon=True).start()
    sys.stdin.read()
    # without a farewell: the JVM ends when its own input does
    os._exit(0)


def _run(name: str, folder: str, behind: dict[str, int], timeout: str) -> None:
    result = _environment(folder, behind, timeout).execute_sql(_COUNT)
    client = result.get_job_client()
    while "RUNNING" not in str(client.get_job_status().result()):
        time.sleep(0.05)
    _say(name, running=True)
    with result.collect() as rows:
        for row in rows:
            at = time.time()
            _say(name, end=row[0].replace(tzinfo=dt.UTC).timestamp(), count=row[1], at=at)


def _environment(folder: str, behind: dict[str, int], timeout: str) -> TableEnvironment:
    settings = Configuration()
    # with more, each of the slow stream's readers would wait for a file of its own: one is the kindest to it
    settings.set_string("parallelism.default", "1")
    for address in (
        "rest.address",
        "rest.bind-address",
        "jobmanager.bind-host",
        "taskmanager.bind-host",
        "taskmanager.host",
    ):
        settings.set_string(address, "127.0.0.1")
    settings.set_string("rest.bind-port", "0")
    settings.set_string("table.local-time-zone", "UTC")
    if timeout:
        settings.set_string("table.exec.source.idle-timeout", timeout)
    environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )
    for name, seconds in behind.items():
        environment.execute_sql(_STREAM.format(name=name, folder=folder, behind=seconds))
    environment.execute_sql("CREATE VIEW united AS SELECT * FROM fast UNION ALL SELECT * FROM slow")
    return environment


def _say(name: str, **event: Any) -> None:
    sys.stdout.write(json.dumps({"name": name, **event}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(
        sys.argv[1],
        {"fast": int(sys.argv[2]), "slow": int(sys.argv[3])},
        dict(item.split("=", 1) for item in sys.argv[4:]),
    )
