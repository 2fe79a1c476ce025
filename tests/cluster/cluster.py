"""A standalone Spark cluster: a master, workers and drivers, each on a machine of its own.

with Cluster(folder, workers=2) as cluster:
    driver = cluster.driver("driver-1")
    driver.call("run", checkpoint=..., text=...)
    cluster.switch_off("worker-2")
    cluster.switch_on("worker-2")
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tests.cluster.driver import Driver
from tests.cluster.machine import ROOT, Machine, best_rack, until
from tests.cluster.marked import marks

from headrace.cli import java
from headrace.hosts.spark.starting.installation import cache_folder, class_options, spark_home

#: JVMs live for a minute or two, too short for Java's optimizing compiler.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PORT = 7077
#: A worker of which the master has not heard for so many seconds is lost. It speaks four times as often, so it must
#: know the number too, or a busy one would be given up although it is well.
LOST_AFTER = "-Dspark.worker.timeout=20"
#: For the imitation of a store, which takes any.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
#: Run a second copy of a task that takes longer than others.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}


class Cluster:
    """A cluster whose machines can be switched off and on; `common` is the folder that all of them have."""

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        memory: str = "1200m",
        executor_memory: str = "700m",
        java_options: str = JAVA_OPTIONS,
        hooks: bool = False,
    ) -> None:
        """Prepare a cluster; with `hooks`, its Python processes tell when they come to one of `points`."""
        self.common, self.logs = directory / "common", directory / "logs"
        for folder in (self.common, self.logs):
            folder.mkdir(parents=True)
        self.workers = [f"worker-{number}" for number in range(1, workers + 1)]
        self.memory, self.executor_memory = memory, executor_memory
        self._modules = [ROOT / "src", ROOT, ROOT / "examples", *([ROOT / "tests/cluster/hooks"] if hooks else [])]
        self.spark_home = spark_home(cache_folder(os.environ)) or _installed_spark()
        self.plain_options = java_options
        self.java_options = f"{java_options} {_archived_classes(self.spark_home)}".strip()
        self._holds = 0
        self.rack = best_rack(self.common)
        self.master = f"spark://{self.rack.network}.{self._number('master')}:{PORT}"

    def __enter__(self) -> Cluster:
        for folder in (ROOT / "src" / "headrace", ROOT / "tests" / "cluster"):
            compileall.compile_dir(folder, quiet=1)  # machines cannot: they may not write there
        for name in ("master", *self.workers):
            self.switch_on(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rack.close()

    def switch_on(self, name: str) -> Machine:
        """Start a machine with the part of Spark that runs on it; its disk is empty."""
        machine = self.machine(name)
        if name == "master":
            options = ["master.Master", "--port", str(PORT), "--webui-port", "0"]
        else:
            work = str(self.common / "work" / name)  # what executors print outlives the machine
            options = ["worker.Worker", "--cores", "1", "--memory", self.memory, "--work-dir", work, self.master]
        kind, *arguments = options
        spark_class = str(self.spark_home / "bin" / "spark-class")
        command = [spark_class, f"org.apache.spark.deploy.{kind}", "--host", machine.address, *arguments]
        log = self.logs / f"{name}.log"
        machine.start(command, self.environ(machine), log)
        if name == "master":
            until(lambda: "I have been elected leader" in log.read_text(), what="a master")
        return machine

    def switch_off(self, name: str) -> None:
        self.rack.machines[name].switch_off()

    def address(self, name: str) -> str:
        return self.rack.machines[name].address

    def is_on(self, name: str) -> bool:
        return self.rack.machines[name].first_process.poll() is None

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold the next bucket task on a machine (see `marked`); the body runs while it is held."""
        address = self.address(name)
        hold, held = self.common / "hold" / address, self.common / "held" / address
        hold.parent.mkdir(exist_ok=True)
        self._holds += 1
        fresh = hold.with_name(f"{address}.{self._holds}")
        fresh.write_text(str(self._holds))
        fresh.rename(hold)  # a task that is held looks at it now and then, and must see that this is another one
        try:
            until(held.exists, what=lambda: f"a task on {name} ({address}), after {marks(self.common)[-4:]},")
            yield
        finally:
            hold.unlink()
            held.unlink(missing_ok=True)

    def driver(
        self,
        name: str,
        conf: Mapping[str, str] | None = None,
        *,
        master: str | None = None,
        executors: int | None = None,
    ) -> Driver:
        """Start a driver on a machine that is off, and wait until it has executors: one per worker unless told."""
        machine = self.machine(name)
        chosen = {
            "spark.executor.memory": self.executor_memory,
            "spark.executor.extraJavaOptions": self.java_options,
            **(conf or {}),
        }
        command = [sys.executable, "-m", "tests.cluster.driver_process", master or self.master, json.dumps(chosen)]
        log, environ = self.logs / f"{name}.log", self.environ(machine)
        if master is not None:  # a local Spark looks for an archive of classes itself, and Java takes one
            environ["SPARK_SUBMIT_OPTS"] = self.plain_options
        driver = Driver(machine, machine.start(command, environ, log, talks=True), log)
        driver.wait_for_start()
        number = len(self.workers) if executors is None else executors
        if number:
            until(lambda: len(driver.call("executors")) >= number, what=f"{number} executors")
        return driver

    def environ(self, machine: Machine) -> dict[str, str]:
        """Return the environment of programs on a machine."""
        home = machine.disk / "home"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(machine.disk),
            "JAVA_HOME": str(java.prepare()),
            "PYTHONPATH": os.pathsep.join(map(str, self._modules)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HEADRACE_ALLOW_PYTHON": "*",
            "HEADRACE_DEBUG": "1",  # Spark's log goes to ours
            "HEADRACE_TEST_COMMON": str(self.common),
            **CREDENTIALS,
            "SPARK_HOME": str(self.spark_home),
            "SPARK_LOCAL_IP": machine.address,
            "SPARK_LOCAL_DIRS": str(machine.disk / "spark"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self.java_options,
            "SPARK_SUBMIT_OPTS": self.java_options,
            "SPARK_MASTER_OPTS": LOST_AFTER,
            "SPARK_WORKER_OPTS": LOST_AFTER,
        }

    def machine(self, name: str) -> Machine:
        """Switch on a machine on which nothing runs yet."""
        return self.rack.machine(name, self._number(name))

    def _number(self, name: str) -> int:
        """Return the last part of a machine's address: 1 for the master, 11 for worker-1, 101 for driver-1."""
        kind, _, number = name.partition("-")
        return {"master": 1, "kafka": 2, "store": 3, "worker": 10, "driver": 100}[kind] + int(number or 0)


def _archived_classes(home: Path) -> str:
    """Return options by which JVMs map an archive of Spark's classes, if a local Spark has left one."""
    options = class_options(home, cache_folder(os.environ), {**os.environ, "JAVA_HOME": str(java.prepare())})
    return options if "SharedArchiveFile" in options else ""  # machines cannot write one there


def _installed_spark() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
