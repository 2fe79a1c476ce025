"""A session on the command line: start it without Spark's log on the terminal, wait for it, stop it with Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from headrace.cli import java
from headrace.cli.early import share_folder
from headrace.cli.help import flag
from headrace.cli.output import err, is_debugging, out
from headrace.errors import HeadraceError
from headrace.hosts.host import Preparable
from headrace.hosts.spark.starting.launch import GATEWAY, Launch, parse_settings
from headrace.model.allowed_python import allow
from headrace.session import Listing, Session

FORCED = 130
#: Set when a command was interrupted and its work is done.
_done = threading.Event()


@atexit.register
def _ignore_late_signals() -> None:
    """Let nothing kill a process that has done its work: at the end, Python gives up its handlers of signals.

    What is registered first is called last, so the JVM has ended by then.
    """
    if _done.is_set():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


class Host(StrEnum):
    """Where queries run."""

    spark = "spark"
    local = "local"


class AnnouncingSession(Session):
    """A session on Spark that shows that Spark is starting, which may take a minute on a slow machine."""

    _announced = False

    def prepare(self) -> None:
        if isinstance(self.deployment, Preparable) and self.deployment.takes_long():
            self._announce(super().prepare)

    def start(self) -> None:
        self._announce(super().start)

    def _announce(self, start: Callable[[], None]) -> None:
        """Show the first start; what follows takes little time."""
        if self._announced:
            start()
            return
        self._announced = True
        began = time.monotonic()
        with ended_by_interrupt("stopped while Spark was starting"), show_progress("starting Spark", self._stage):
            start()
        err.print(f"[dim]Spark started in {time.monotonic() - began:.0f} s[/]")

    def _stage(self) -> str:
        """Return what the start is doing; a cluster takes several steps."""
        return str(getattr(self.deployment, "stage", "starting Spark"))


def open_session(
    checkpoint: Path | None = None,
    *,
    host: Host = Host.spark,
    buckets: int | None = None,
    launch: Launch | None = None,
    take_over: bool = False,
    restart: bool = True,
    announces: bool = True,
) -> Session:
    """Make a session; on Spark, look for Java first, so that a missing one gives a clear message.

    One that `announces` its start shows on the terminal that Spark is starting.
    """
    if host is Host.local:
        return Session(checkpoint, host="local", buckets=buckets, take_over=take_over)
    launch = launch or Launch()
    if GATEWAY not in os.environ:  # else Java is running: spark-submit has started it
        java.prepare()
    make = AnnouncingSession if announces else Session
    return make(
        checkpoint,
        host="spark",
        buckets=buckets,
        master=launch.master,
        conf=launch.conf,
        executors=launch.executors,
        take_over=take_over,
        restart=restart,
    )


def take_over_option() -> Any:
    """Return the option that takes a checkpoint from a process of another machine."""
    return flag("--take-over", "Use the checkpoint although a process of another machine has not released it.")


def master_option() -> Any:
    """Return the option that says where Spark runs."""
    text = (
        "Where Spark runs: spark://host:7077, yarn, k8s://https://host:443 or local[4]. Without it, where Spark's own "
        "settings say (spark-defaults.conf, spark-submit), or else on this machine."
    )
    return typer.Option(None, "--master", help=text)


def conf_option() -> Any:
    """Return the option for settings of Spark."""
    return typer.Option([], "--conf", metavar="NAME=VALUE", help="A setting of Spark. Repeatable.")


def executors_option() -> Any:
    """Return the option that says how many executors a start waits for."""
    text = "On a cluster, wait for this many executors; YARN and Kubernetes are asked for them.  [default: 1]"
    return typer.Option(None, "--executors", min=1, help=text)


def chosen_launch(host: Host, master: str | None, conf: list[str], executors: int | None) -> Launch:
    """Return which Spark the options ask for; what is wrong with them is told before anything happens."""
    given = {"--master": master, "--conf": conf, "--executors": executors}
    if host is Host.local:
        for option, value in given.items():
            if value:
                raise typer.BadParameter("the local host has no Spark; leave out one of the two", param_hint=option)
    with wrong_option("--conf"):
        settings = parse_settings(conf)
    with wrong_option("--master"):
        return Launch(master=master, conf=settings, executors=executors)


@contextmanager
def wrong_option(name: str) -> Iterator[None]:
    """Turn a fault in what was typed into the message for a wrong option."""
    try:
        yield
    except HeadraceError as error:
        text = error.message if error.hint is None else f"{error.message}; {error.hint}"
        raise typer.BadParameter(text, param_hint=name) from error


@contextmanager
def show_progress(title: str, stage: Callable[[], str] | None = None) -> Iterator[None]:
    """Show a line with the seconds that have passed; on a terminal it disappears at the end.

    There it shows the title as `stage` has it at each moment.
    """
    if not err.is_terminal or is_debugging():
        err.print(f"[dim]{title} ...[/]")
        yield
        return
    with Progress(
        SpinnerColumn(),
        _Stage(stage or (lambda: title)),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        refresh_per_second=4,
    ) as line:
        line.add_task("")
        yield


class _Stage(ProgressColumn):
    """A text that changes while something runs."""

    def __init__(self, stage: Callable[[], str]) -> None:
        super().__init__()
        self._stage = stage

    def render(self, task: Task) -> Text:
        return Text(self._stage())


@contextmanager
def ended_by_interrupt(message: str) -> Iterator[None]:
    """End the process at Ctrl-C with a message: an exception in the middle of PySpark's start would only fail there.

    The JVM ends with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        err.print(f"\n{message}")
        err.show_cursor(True)  # a progress line hides it
        os._exit(FORCED)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def statements_in(file: Path) -> str:
    """Return the text of a file of statements."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(f"{file} cannot be read: {why}") from error


def beside(file: Path) -> None:
    """Make Python code in the folder of a script importable and allowed, here and in Spark's workers."""
    folder = share_folder(file)
    allow(folders=[folder])
    sys.path.insert(0, folder)


def python_option() -> Any:
    """Return the option that lists modules which statements may use."""
    text = "Let statements call code in this module, or in a whole package (name.*). Repeatable."
    return typer.Option([], "--allow-python", metavar="MODULE", help=text)


def allow_python(modules: list[str]) -> None:
    """Let statements call code in these modules, here and in Spark's workers."""
    try:
        allow(modules)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--allow-python") from error


def is_running(session: Session) -> bool:
    """Return whether there is any query, from these statements or from earlier ones on the same checkpoint."""
    return any(isinstance(outcome, Listing) and outcome.rows for outcome in session.execute("SHOW QUERIES"))


@contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[threading.Event]:
    """Set the event at the first Ctrl-C, so that the micro-batch can finish; end the process at the second.

    Enter it after Spark has started: until then there is no micro-batch to finish.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            err.print("stopped at once; the checkpoint is intact, and the unfinished micro-batch will run again")
            out.show_cursor(True)  # a live display hides it
            os._exit(FORCED)
        stop.set()
        on_first()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        if stop.is_set():
            _done.set()
        for number, handler in before.items():
            # a command that was interrupted ends: whoever is impatient then gets its code, not a death by the signal
            signal.signal(number, (lambda *_: os._exit(FORCED)) if stop.is_set() else handler)


def watch(session: Session, stop: threading.Event, *, every: float, look: Callable[[], None]) -> bool:
    """Call `look` every `every` seconds until the deployment ends (True) or `stop` is set (False)."""
    began = time.monotonic()
    due = 0.0
    while not stop.is_set():
        passed = time.monotonic() - began
        if passed >= due:
            look()
            due = passed + every
        if session.wait(min(every, 0.25)):  # short, so that Ctrl-C is answered at once
            return True
    return False
