"""`headrace submit`: run statements on a cluster whose machines have Spark and Python, but nothing of ours."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from enum import StrEnum
from pathlib import Path

import typer

import headrace
from headrace.cli import run as running
from headrace.cli.help import examples, flag
from headrace.cli.live_session import (
    Host,
    chosen_launch,
    conf_option,
    executors_option,
    python_option,
    show_progress,
    statements_in,
)
from headrace.cli.output import RUN_FAILED, err, faults
from headrace.errors import HostFault
from headrace.hosts.spark.starting import packing
from headrace.hosts.spark.starting.launch import Launch, is_local
from headrace.language.parser import parse
from headrace.storage.disk import make_directory
from headrace.storage.location import location

EXAMPLES = examples(
    ("run here, with tasks on the cluster; what they need is sent along",
     "submit examples/first.sql --checkpoint /shared/state --master spark://10.0.0.5:7077"),
    ("let the cluster run the driver, too (YARN, Kubernetes)",
     "submit examples/first.sql --checkpoint /shared/state --master yarn --deploy-mode cluster"),
)  # fmt: skip


class DeployMode(StrEnum):
    """Where the driver runs."""

    client = "client"
    cluster = "cluster"


def submit(
    file: Path = typer.Argument(
        ..., exists=True, dir_okay=False, readable=True, help="SQL statements, separated by semicolons."
    ),
    checkpoint: Path = typer.Option(..., help="Folder for state that all machines share."),
    master: str = typer.Option(..., help="Where Spark runs: spark://host:7077, yarn, k8s://https://host:443."),
    deploy_mode: DeployMode = typer.Option(
        DeployMode.client, help="Where the driver runs: here, or on the cluster (not on a standalone one)."
    ),
    once: bool = flag("--once", "Read what the sources hold now, end all windows, deliver the results and stop."),
    buckets: int | None = typer.Option(None, min=1, help="Number of buckets of state."),
    conf: list[str] = conf_option(),
    executors: int | None = executors_option(),
    python: list[str] = python_option(),
    stats: bool = flag("--stats", "Print rates and times every five seconds."),
) -> None:
    """Run the statements of a file on a cluster, and send along the packages that its executors need."""
    text = statements_in(file)
    launch = chosen_launch(Host.spark, master, conf, executors)
    with faults(text):
        parse(text)  # report syntax errors at once
        check_mode(master, deploy_mode)
        place = location(str(checkpoint), is_data=False)
        archive = _archive()
    settings = [f"{name}={value}" for name, value in with_archive(launch, archive).items()]
    if deploy_mode is DeployMode.client:
        os.environ["PYSPARK_PYTHON"] = packing.PYTHON
        running.run(
            file, checkpoint=checkpoint, once=once, buckets=buckets, host=Host.spark, master=master, conf=settings,
            executors=executors, python=python, stats=stats, fail_on=[],
        )  # fmt: skip
        return
    options = [*(["--once"] if once else []), *(["--stats"] if stats else [])]
    options += ["--buckets", str(buckets)] if buckets is not None else []
    options += [word for module in python for word in ("--allow-python", module)]
    options += ["--executors", str(executors)] if executors is not None else []
    with faults():
        command = submit_command(_spark_submit(), launch, archive, file, [f"--checkpoint={place}", *options])
        err.print(f"[dim]the cluster runs the driver: {master}[/]")
        if subprocess.run(command, check=False).returncode:
            raise typer.Exit(RUN_FAILED)


def check_mode(master: str, mode: DeployMode) -> None:
    """Raise a HostFault if a master cannot run what is submitted in this way."""
    if is_local(master):
        raise HostFault(f"the master {master} is this machine, to which nothing is submitted", hint="use headrace run")
    if mode is DeployMode.cluster and master.startswith(("spark:", "local")):
        raise HostFault(
            "a standalone cluster does not run drivers in Python", hint="leave out --deploy-mode: the driver runs here"
        )


def with_archive(launch: Launch, archive: Path) -> dict[str, str]:
    """Return the settings of a launch with the archive beside others that executors unpack."""
    ours = f"{archive}#{packing.FOLDER}"
    others = launch.conf.get("spark.archives")
    return {**launch.conf, "spark.archives": f"{others},{ours}" if others else ours}


def submit_command(program: Path, launch: Launch, archive: Path, file: Path, options: list[str]) -> list[str]:
    """Return the call of spark-submit by which a cluster runs the driver."""
    settings = {**with_archive(launch, archive), "spark.pyspark.python": packing.PYTHON}
    words = [
        str(program),
        "--master",
        str(launch.master),
        "--deploy-mode",
        "cluster",
        "--name",
        f"headrace {file.stem}",
    ]
    words += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    main = Path(headrace.__file__).with_name("__main__.py")
    return [*words, "--files", str(file), str(main), "run", file.name, *options]


def _archive() -> Path:
    from headrace.hosts.spark.starting.installation import cache_folder  # it imports PySpark

    folder = cache_folder(os.environ) / "packed"
    make_directory(folder)
    with show_progress("packing what executors need"):
        return packing.packed(folder)


def _spark_submit() -> Path:
    spec = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (Path(spec.origin).parent if spec and spec.origin else "")
    program = Path(home) / "bin" / "spark-submit"
    if not program.is_file():
        raise HostFault(f"there is no {program}", hint="set SPARK_HOME to an installation of Spark")
    return program
