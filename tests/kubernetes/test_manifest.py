"""The driver of the manifest, as a process of this machine: it gets executors and delivers what the oracle says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.kubernetes.imitation import Kubernetes
from tests.spark import crash_case

ROOT = Path(__file__).parents[2]
#: The pod of the driver, and what Kubernetes puts for variables.
POD = "headrace-0"
VARIABLES = {"$(POD)": POD, "$(NAMESPACE)": "default"}


def arguments(folder: Path, master: str) -> list[str]:
    """Return the arguments of the driver in the manifest, with the places and sizes of this machine."""
    items = json.loads((ROOT / "deploy" / "kubernetes.json").read_text())["items"]
    (driver,) = (item for item in items if item["kind"] == "StatefulSet")
    (template,) = (item["data"]["executor.json"] for item in items if "executor.json" in item.get("data", {}))
    (folder / "executor.json").write_text(template)
    options = {"--checkpoint": str(folder / "state"), "--master": master}
    settings = {
        "spark.kubernetes.executor.podTemplateFile": str(folder / "executor.json"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.driver.blockManager.port": "0",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
    }
    given = []
    for argument in driver["spec"]["template"]["spec"]["containers"][0]["args"]:
        name, _, value = argument.partition("=")
        setting = value.partition("=")[0]
        if name == "--conf" and setting in settings:
            argument = f"--conf={setting}={settings.pop(setting)}"
        elif name in options:
            argument = f"{name}={options.pop(name)}"
        for variable, text in VARIABLES.items():
            argument = argument.replace(variable, text)
        given.append(argument)
    assert not options
    assert not settings, "all of them are in the manifest"
    return given


def test_the_driver_gets_executors_and_delivers_what_the_oracle_says(kubernetes: Kubernetes, tmp_path: Path) -> None:
    kubernetes.add("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": {}})
    frames = crash_case.write_data(tmp_path / "data", 5)
    text = crash_case.script_with(crash_case.FEW).format(data=tmp_path / "data", out=tmp_path / "out")
    (tmp_path / "queries.sql").write_text(text)
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))
    here = {  # the imitation has no watch; executors are processes of this machine
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.executorEnv.PYTHONPATH": path,
        "spark.ui.enabled": "false",
    }
    command = [sys.executable, "-m", "headrace", "run", str(tmp_path / "queries.sql"), "--once"]
    command += [*arguments(tmp_path, kubernetes.master), *(f"--conf={name}={value}" for name, value in here.items())]
    environ = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1"
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    answers = crash_case.expected(text, frames)
    assert crash_case.written(tmp_path / "out", answers) == answers
    assert len(kubernetes.executors) == 2
    assert not kubernetes.listed("pods", {"spark-role": "executor"}), "the driver deletes them at its end"
