"""Starts Spark's JVM so that its log goes to a file instead of the terminal.

Python workers are processes of the JVM, so what they write to standard error goes to the same file. A JVM that somebody
else started keeps the standard error that it has.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import py4j.java_gateway
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.java_gateway import launch_gateway

from headrace.hosts.spark.starting.launch import GATEWAY
from headrace.hosts.spark.starting.settings import DEBUG

#: How Java and spark-submit begin the line that says why they end.
_LAST_WORDS = re.compile(
    r'(?:Exception in thread "main" (?:[\w.$]+: )?|Error: |Error occurred .*: |.* has been killed\. Reason: )(.+)'
)

#: What is done with the gateway of a new JVM.
Prepare: TypeAlias = Callable[[Any], None]

_LOG = logging.getLogger(__name__)
_beginning: _Beginning | None = None
_log: Path | None = None
_is_temporary = False
_begin = 0  # where this process's part of the log begins


class _Beginning:
    """A JVM that starts in the background."""

    def __init__(self, conf: SparkConf, before: Callable[[], object], after: Prepare, target: int) -> None:
        self._conf, self._before, self._after, self._target = conf, before, after, target
        self._gateway: Any = None
        self._thread = threading.Thread(target=self._run, name="jvm", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._before()
            self._gateway = _launch(self._conf, self._target, self._after)
        except Exception:
            _LOG.debug("the JVM did not start in the background", exc_info=True)  # it is tried again, and tells why
        finally:
            os.close(self._target)

    def wait(self) -> Any:
        """Return its gateway; None if it did not start."""
        self._thread.join()
        return self._gateway


def begin_jvm(conf: SparkConf, before: Callable[[], object], after: Prepare) -> None:
    """Start a JVM in the background, for the `start_jvm` that follows; first do what it needs, then `after`."""
    global _beginning
    if _beginning is None and SparkContext._gateway is None and GATEWAY not in os.environ and DEBUG not in os.environ:
        _be_silent()
        _beginning = _Beginning(conf, before, after, _open(None))


def start_jvm(conf: SparkConf, checkpoint: Path | None, after: Prepare) -> Any:
    """Start a JVM unless this process has one, and do `after` with it; return its side of the gateway.

    Its log is `spark.log` in a checkpoint, or a new temporary file, unless it is wanted on the terminal. Nor does a JVM
    that ends later than this process hold open a pipe on its output.
    """
    gateway = None
    if SparkContext._gateway is None and GATEWAY not in os.environ and not os.environ.get(DEBUG):
        gateway = None if _beginning is None else _beginning.wait()
        if gateway is not None:
            _keep_log(checkpoint)
        else:
            _be_silent()
            target = _open(checkpoint)
            try:
                gateway = _launch(conf, target, after)
            finally:
                os.close(target)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    return SparkContext._jvm


def _launch(conf: SparkConf, target: int, after: Prepare) -> Any:
    """Start a JVM in a group of its own: a signal to the group of this process must not end it in a micro-batch.

    It ends with this process all the same, since then its standard input does.
    """
    options = {"stdout": target, "stderr": target, "process_group": 0}
    gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
    after(gateway)
    return gateway


def _be_silent() -> None:
    """Let nothing but our own fault speak when the JVM dies."""
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        setattr(server, "handle_error", _on_error)  # noqa: B010  it would print a traceback
    # It logs by the root logger, which then begins to print what every other logger has. Its own has no handler.
    setattr(py4j.java_gateway, "logging", py4j.java_gateway.logger)  # noqa: B010


def _on_error(server: socketserver.BaseServer, request: Any, address: Any) -> None:
    """Report an error of PySpark's server, but not that the JVM has closed the connection: our own fault says that."""
    if not isinstance(sys.exc_info()[1], ConnectionError | EOFError):
        socketserver.BaseServer.handle_error(server, request, address)


def with_log(hint: str) -> str:
    """Return a hint that also names the file of Spark's log, if there is one."""
    global _is_temporary
    if _log is None or not _log.exists():
        return hint
    _is_temporary = False  # the user may want to read it
    return f"{hint}; Spark's log is {_log}"


def error_in_log() -> str | None:
    """Return why the JVM ended, in its own words; None if the log does not say."""
    if _log is None or not _log.exists():
        return None
    lines = _log.read_bytes()[_begin:].decode(errors="replace").splitlines()
    words = [match[1] for line in lines if (match := _LAST_WORDS.match(line))]
    return words[0] if words else None


def _open(checkpoint: Path | None) -> int:
    global _log, _is_temporary, _begin
    if checkpoint is None:
        target, name = tempfile.mkstemp(prefix="headrace-spark-", suffix=".log")
        _log, _is_temporary = Path(name), True
        atexit.register(_remove)
    else:
        _log, _is_temporary = checkpoint / "spark.log", False
        target = os.open(_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _begin = os.fstat(target).st_size
    return target


def _keep_log(checkpoint: Path | None) -> None:
    """Give the log of a JVM that started in the background its place in a checkpoint, where there is none yet."""
    global _log, _is_temporary
    if checkpoint is None or _log is None or (checkpoint / "spark.log").exists():
        return
    with suppress(OSError):  # on another disk it stays where it is
        _log.rename(checkpoint / "spark.log")
        _log, _is_temporary = checkpoint / "spark.log", False


def _remove() -> None:
    """Remove a temporary log that no error has named."""
    if _is_temporary and _log is not None:
        with suppress(OSError):
            _log.unlink()
