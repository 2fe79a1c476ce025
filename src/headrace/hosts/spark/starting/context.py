"""The Spark session in which queries run: one that is handed in, one that runs in this process, or a new one.

A Spark that somebody else has started gets a session of ours, so that the settings of its own session stay as they are.
A new one runs where the user says (`--master`), or where the files and variables that `spark-submit` reads say; if
nobody says anything, on this machine.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError, HostFault
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.starting.given import given_settings, submitted_master
from headrace.hosts.spark.starting.installation import cache_folder, class_options, spark_home
from headrace.hosts.spark.starting.jvm import Prepare, begin_jvm, error_in_log, start_jvm, with_log
from headrace.hosts.spark.starting.launch import GATEWAY, Launch, check_master, is_local, local_cores
from headrace.hosts.spark.starting.local_files import use_local_files
from headrace.hosts.spark.starting.masters import check_answering, check_listening
from headrace.hosts.spark.starting.scratch import folder_settings, private_folder
from headrace.hosts.spark.starting.settings import (
    AT_START,
    JAVA_OPTIONS,
    PARTITIONS,
    check_needed,
    chosen_settings,
    missing_settings,
    process_environment,
    session_settings,
)
from headrace.storage.object_settings import configure, for_spark

_LOG = logging.getLogger(__name__)
#: How often a task is tried on one machine: one whose worker died is tried again, as on a cluster.
_TRIES = 4

#: A JVM opens each jar of Spark, and some files more.
_OPEN_FILES = 1024

#: Older ones cannot limit what a Python source reads (before 4.2), or divide the state of a checkpoint anew.
_OLDEST = (4, 3)

#: Half of what a JVM does in its first minute is to compile methods once more, better, for later. A job with an end
#: does without: the tuples are processed in Python.
_SHORT = "-XX:TieredStopAtLevel=1"

#: A JVM gives back what its C heap does not use, once a minute. One that does not know the option ignores it, as Spark
#: tells it to.
_TRIM = "-XX:TrimNativeHeapInterval=60000"

#: Pages and chunks of state are arrays of up to some megabytes. A JVM with 2 GB divides its heap into regions of 1 MB,
#: and an array of half of that starts a search for garbage in the whole heap, twice in a large micro-batch. A heap that
#: is smaller than the least (in MB) would have few regions.
_REGIONS, _LEAST_HEAP = "-XX:G1HeapRegionSize=8m", 1024
#: Sizes of memory as Spark reads them, in MB.
_MEMORY = re.compile(r"(\d+)([kmgt]?)b?")
_MEGABYTES = {"k": 1 / 1024, "": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0**2}

_started: SparkSession | None = None  # the session of the Spark that this process has started through us


def session_for(launch: Launch | None = None, *, checkpoint: Path | None = None) -> SparkSession:
    """Return the session in which queries run; a Spark that starts now logs into the checkpoint, if there is one."""
    launch = launch or Launch()
    if launch.spark is not None:
        return _session_of(launch.spark, launch)
    if SparkContext._active_spark_context is None:
        return _start(launch, checkpoint)
    running = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    _check_fits(running.sparkContext, launch)
    if _started is not None and _started.sparkContext is running.sparkContext:
        return _started
    return _session_of(running, launch)


def begin(before: Callable[[], object], *, is_short: bool) -> None:
    """Start the JVM of a Spark on this machine in the background, with nothing chosen by the user; first do `before`.

    The program has more than a second of other work meanwhile. What cannot start this way starts later. A program that
    `is_short` gets a JVM that starts quickly.
    """
    launch = Launch()
    given = _given(launch)
    master = given.get("spark.master") or f"local[{max(2, os.cpu_count() or 2)}]"
    if is_local(master):
        configure(given)
        settings = _settings(master, given, launch)
        if is_short and JAVA_OPTIONS not in given:
            settings[JAVA_OPTIONS] = f"{settings.get(JAVA_OPTIONS, '')} {_SHORT}".strip()
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        begin_jvm(conf, before, _preparation(master, given))


def is_on_cluster(launch: Launch) -> bool:
    """Return whether queries will run on a cluster; HostFault for settings with which they cannot, before Spark starts.

    Of a Spark that runs already nothing is checked here: `session_for` does.
    """
    running = launch.spark if isinstance(launch.spark, SparkSession) else None
    if running is None and SparkContext._active_spark_context is not None:
        running = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if running is not None:
        return is_cluster(running)
    if launch.spark is not None:
        return False
    check_version(pyspark.__version__)
    given = _given(launch)
    master = launch.master or given.get("spark.master") or "local"
    check_master(master)
    chosen_settings({**given, **launch.conf}, is_local=is_local(master))
    return not is_local(master)


def given_to(launch: Launch) -> dict[str, str]:
    """Return the settings of the Spark in which queries will run, as far as others than Headrace have given them."""
    running = SparkContext._active_spark_context
    if isinstance(launch.spark, SparkSession):
        running = launch.spark.sparkContext
    return dict(running.getConf().getAll()) if running is not None else _given(launch)


def check_version(version: str) -> None:
    """Refuse a Spark that is too old."""
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise HostFault(
            f"Spark {version} is too old: Headrace needs Spark {'.'.join(map(str, _OLDEST))}",
            hint="install that version of PySpark, or run where Spark has it",
        )


def is_cluster(session: SparkSession) -> bool:
    """Return whether tasks run in other processes than the driver's."""
    return not is_local(str(session.sparkContext.master))


def _session_of(spark: object, launch: Launch) -> SparkSession:
    """Return a session of ours in a Spark that somebody else has started."""
    if not isinstance(spark, SparkSession):
        remote = type(spark).__module__.startswith("pyspark.sql.connect")
        raise HostFault(
            f"{'a session of Spark Connect' if remote else repr(spark)} cannot run queries",
            hint="use a SparkSession of the driver: Headrace runs inside the driver's process",
        )
    if spark.sparkContext._jsc is None:
        raise HostFault("the Spark session has been stopped", hint="make a new one")
    check_version(spark.version)
    given = dict(spark.sparkContext.getConf().getAll())
    check_needed(launch.conf)
    for setting in missing_settings(given):
        _LOG.info("Spark was started without %s=%s (%s)", setting.name, setting.value, setting.reason)
    session = spark.newSession()
    for name, value in {**session_settings(given), **launch.conf}.items():
        if given.get(name) == value:
            continue
        try:
            session.conf.set(name, value)
        except Exception as error:
            raise HostFault(
                f"{name} cannot be set to {value}, because Spark is running: {essence(str(error))}",
                hint="set it where Spark is started",
            ) from error
    return session


def _check_fits(context: SparkContext, launch: Launch) -> None:
    """Raise a HostFault if the Spark that runs in this process is not the one that is asked for."""
    hint = "a process has one Spark: use the one that runs, or another process"
    if launch.master is not None and _with_tries(launch.master) != _with_tries(str(context.master)):
        raise HostFault(f"Spark runs in this process with the master {context.master}, not {launch.master}", hint=hint)
    if _started is not None and _started.sparkContext is context:
        for name, value in launch.conf.items():
            current = _started.conf.get(name, None)
            if current != value:
                raise HostFault(f"Spark runs in this process with {name}={current}, not {value}", hint=hint)


def _start(launch: Launch, checkpoint: Path | None) -> SparkSession:
    global _started
    if os.environ.get("SPARK_REMOTE"):
        raise HostFault(
            f"SPARK_REMOTE is {os.environ['SPARK_REMOTE']}, and queries do not run by Spark Connect",
            hint="unset it, and say where Spark runs with --master",
        )
    check_version(pyspark.__version__)
    given = _given(launch)
    configure({**given, **launch.conf})
    master = launch.master or given.get("spark.master") or f"local[{max(2, os.cpu_count() or 2)}]"
    check_master(master)
    check_listening(master)
    conf = SparkConf(loadDefaults=False).setAll(list(_settings(master, given, launch).items()))
    try:
        with _own_interrupts(), _beside_python(os.environ.get("PYSPARK_PYTHON", "")):
            jvm = start_jvm(conf, checkpoint, _preparation(master, {**given, **launch.conf}))
            check_answering(jvm, master, conf)
            _started = SparkSession.builder.config(conf=conf).getOrCreate()
    except HeadraceError:
        raise
    except Exception as error:
        raise start_fault(master, error) from error
    return _started


def _settings(master: str, given: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """Return the settings with which Spark starts, beside those that it reads itself."""
    local = is_local(master)
    given = {**given, **launch.conf}
    chosen = chosen_settings(given, is_local=local)
    process_environment(given, is_local=local)
    if local:
        cores = local_cores(master, max(2, os.cpu_count() or 2))
        memory = given.get("spark.driver.memory") or chosen["spark.driver.memory"]
        folder = private_folder()
        options = f'{_quick_start(memory)} "-Djava.io.tmpdir={folder}"'
        machine = {PARTITIONS: str(cores), JAVA_OPTIONS: options, **folder_settings(folder, os.environ)}
        chosen |= {name: value for name, value in machine.items() if name not in given}
    chosen |= {name: value for name, value in for_spark().items() if name not in given}
    if not local and launch.executors is not None:
        chosen.setdefault("spark.executor.instances", str(launch.executors))
    if GATEWAY in os.environ:  # the JVM is running
        chosen = {name: value for name, value in chosen.items() if name not in AT_START}
    return {"spark.app.name": "headrace", **chosen, **launch.conf, "spark.master": _with_tries(master)}


def _given(launch: Launch) -> dict[str, str]:
    """Return the settings that the user gave outside of Headrace; HostFault if they contradict those that it got."""
    if GATEWAY in os.environ:  # spark-submit has read them all
        SparkContext._ensure_initialized()
        given = dict(SparkConf(_jvm=SparkContext._jvm).getAll())
        for name in AT_START:
            if given.get(name, launch.conf.get(name)) != launch.conf.get(name, given.get(name)):
                raise HostFault(f"{name} has no effect after spark-submit", hint="give it to spark-submit")
    else:
        home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
        given = given_settings(os.environ, home)
    other = given["spark.master"] if GATEWAY in os.environ else submitted_master(os.environ)
    if launch.master is not None and other is not None and _with_tries(other) != _with_tries(launch.master):
        raise HostFault(
            f"the master is {launch.master} here and {other} for spark-submit", hint="give it once, to spark-submit"
        )
    return given


def _preparation(master: str, given: Mapping[str, str]) -> Prepare:
    """Return what is done with a new JVM. Executors of a cluster do not write to local disks what must last."""
    if is_local(master):
        return partial(use_local_files, settings=given, cache=cache_folder(os.environ))
    return lambda gateway: None


def _with_tries(master: str) -> str:
    """Return a master that tries a task again if its worker died; clusters do so anyway."""
    if not is_local(master) or "," in master:
        return master
    return f"local[{local_cores(master, max(2, os.cpu_count() or 2))}, {_TRIES}]"


def start_fault(master: str, error: Exception) -> HostFault:
    """Return the fault for a Spark that does not start, with the line of its log that says why."""
    why = error_in_log() or essence(str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error))
    java = "Headrace needs Java 17 or later; set JAVA_HOME"
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # Java raises its own limit to this one
    if open_files != resource.RLIM_INFINITY and open_files < _OPEN_FILES:
        java = f"Spark needs {_OPEN_FILES} open files, and the limit is {open_files}: ulimit -n {_OPEN_FILES}"
    return HostFault(
        f"Spark does not start{'' if is_local(master) else f' with the master {master}'}: {why}",
        hint=with_log(java if is_local(master) else "look whether the cluster runs the same version of Spark"),
    )


def _quick_start(memory: str) -> str:
    """Let the JVM start from an installation that starts quickly, unless the user chose one; return its options."""
    folder = cache_folder(os.environ)
    if "SPARK_HOME" not in os.environ and (home := spark_home(folder)) is not None:
        os.environ["SPARK_HOME"] = str(home)
    size = _MEMORY.fullmatch(memory.strip().lower())
    is_large = size is not None and int(size[1]) * _MEGABYTES[size[2]] >= _LEAST_HEAP
    options = f"{_TRIM} {_REGIONS}" if is_large else _TRIM
    if "SPARK_HOME" in os.environ:
        options = f"{options} {class_options(Path(os.environ['SPARK_HOME']), folder, os.environ)}".strip()
    return options


@contextmanager
def _beside_python(python: str) -> Iterator[None]:
    """Let the JVM start in a folder where the path of the executors' Python, if it is relative, leads to this one.

    Executors unpack archives beside themselves. The processes in which the driver plans micro-batches are started by
    the same path.
    """
    if os.path.isabs(python) or os.sep not in python or os.path.exists(python) or GATEWAY in os.environ:
        yield
        return
    here, folder = os.getcwd(), Path(private_folder())
    link = folder / python
    link.parent.mkdir(parents=True)
    link.write_text(f'#!/bin/sh\ncd {shlex.quote(here)} && exec {shlex.quote(sys.executable)} "$@"\n')
    link.chmod(0o700)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of Ctrl-C: PySpark's own would talk to the JVM in the middle of another call, and fail."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
