"""`headrace test`: run the checks and tests of a checkout, in sections.

Tests make a hundred thousand small files. In memory a file costs a twentieth of what it costs on a disk, so that is
where the temporary files of a section are, if there is room. Nothing else about the tests changes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, TypeAlias

import typer
from rich.markup import escape

from headrace.cli import java
from headrace.cli.help import examples, flag
from headrace.cli.output import RUN_FAILED, err, out
from headrace.errors import HostFault

EXAMPLES = examples(
    ("everything", "test"),
    ("the checks and the fast tests, without Spark and Kafka", "test --fast"),
    ("the checks, then only these tests; other arguments go to pytest", "test tests/unit -k window"),
)
#: pytest's exit code for "no tests selected", which is no failure if arguments select tests of one kind only.
NOTHING_COLLECTED = 5
#: In a run of everything, a test that fails runs once more. A test that passes then is listed with what it had raised,
#: and does not fail the section: hundreds of processes share the machine, and one late answer should not refuse a
#: change. When more than a few tests fail, that is no accident, and they fail. Hypothesis repeats a failing example.
SECOND_TRY = ("--reruns", "1", "--max-suite-reruns", "3", "--rerun-show-tracebacks")
Verdict: TypeAlias = Literal["passed", "failed", "no tests"]
STYLES: dict[Verdict, str] = {"passed": "[green]", "failed": "[bold red]", "no tests": "[dim]"}
#: The titles of tests that start no other system.
FAST, SLOW = "fast tests", "slow tests"
#: The title of the tests that need Java.
ON_SPARK = "tests on Spark and servers"
#: A folder in memory, and how many bytes must be free there. The fast and the slow tests need less than half of them.
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
PREFIX = "headrace-"  # then the number of the process; short, since the path of a socket may have 108 characters
#: Tests that share a Spark, a browser or a server: the title, their marks, and where they are. To collect all tests in
#: order to choose these takes longer than some of them. Those on Spark and those on servers are one section: each has a
#: group that keeps one process busy for minutes.
GROUPS = (
    ("tests in a browser", "browser", ("tests/browser",)),
    (
        ON_SPARK,
        "spark or kafka or cluster or objects",
        (
            *(f"tests/{place}" for place in ("spark", "cluster", "hadoop", "kafka", "kubernetes", "objects")),
            "tests/unit/storage",
        ),
    ),
)
#: How many seconds to wait for something that tests use, such as the download of a server.
PATIENCE = 180
#: What downloads nothing and has time until the tests on Spark: it runs beside the other scripts and the checks.
SOON = Path("tests/spark/setup")


def run_tests(
    context: typer.Context,
    fast: bool = flag(
        "--fast", "Run only the checks and the fast tests: no slow ones, no Spark, no Kafka, no downloads."
    ),
) -> None:
    """Run style, type and layer checks and all tests, also on Spark, Kafka, a cluster. Needs a checkout."""
    root = checkout()
    scripts = [] if fast else sorted(root.glob("tests/*/setup"), key=lambda script: (script != root / SOON, script))
    with ThreadPoolExecutor(1) as beside:
        for script in scripts:
            if script == root / SOON:
                beside.submit(_get, script)
            else:
                _get(script)
        verdicts = {title: _run(title, command, root) for title, command in sections(context.args, fast=fast)}
    if failed := [title for title, verdict in verdicts.items() if verdict == "failed"]:
        err.print(f"\n[bold red]failed:[/] {', '.join(failed)}")
        raise typer.Exit(RUN_FAILED)
    if not any(verdict == "passed" for title, verdict in verdicts.items() if "tests" in title):
        err.print(f"\n[bold red]no test matches[/] {escape(' '.join(context.args))}")
        raise typer.Exit(RUN_FAILED)
    out.print("\n[bold green]all passed[/]")


def _get(script: Path) -> None:
    if reason := obtain(script, patience=PATIENCE):
        err.print(f"{script.parent.name}: {reason}; tests that cannot do without it are skipped", markup=False)


def sections(arguments: Sequence[str], *, fast: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Return titles and commands, those that find mistakes soonest first."""
    python = sys.executable
    scripts = Path(python).parent
    yield "ruff check", [python, "-m", "ruff", "check", "."]
    yield "ruff format", [python, "-m", "ruff", "format", "--check", "."]
    yield "mypy", [python, "-m", "mypy"]
    yield "layers", [str(scripts / "lint-imports")]
    # why tests are skipped, and which take longest
    pytest = [python, "-m", "pytest", "-q", "-rs", "--durations=12", "--durations-min=5", *(arguments or SECOND_TRY)]
    if "-m" in arguments:
        yield "tests", pytest
    else:
        together = ["-n", str(processes(6)), "--dist", "worksteal"]  # their times differ much
        others = "not kafka and not cluster and not objects and not browser"
        yield FAST, [*pytest, "-m", f"not spark and {others} and not slow", *together]
    if "-m" not in arguments and not fast:
        yield SLOW, [*pytest, "-m", f"slow and not spark and {others}", *together]
        # tests that share a Spark, a broker, a cluster or a store run in one process (tests/conftest.py)
        groups = ["-n", str(processes(3)), "--dist", "loadscope"]
        for title, marks, folders in GROUPS:
            yield title, [*pytest, "-m", marks, *groups, *(() if arguments else folders)]


def processes(most: int, cores: int | None = None) -> int:
    """Return how many processes run tests side by side: half as many again as there are cores, up to so many.

    Tests wait for files, servers and other processes for about half of their time.
    """
    return max(1, min(most, 3 * (cores or os.cpu_count() or 1) // 2))


def environment(given: Mapping[str, str], folder: Path | None = None, *, title: str = "") -> dict[str, str]:
    """Return the variables of a section, with the folder of its temporary files.

    Python keeps what it compiles, for the sections and processes that follow. Images of containers often tell it not
    to. Then each of the hundreds of processes that tests start would compile Headrace again, and each section all
    tests.

    The fast tests give Polars one thread, as tasks on Spark have; the slow tests leave it all cores. More processes run
    than there are cores, and frames of ten rows are not worth the threads.
    """
    kept = {name: value for name, value in given.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if title == FAST:
        kept.setdefault("POLARS_MAX_THREADS", "1")
    return kept if folder is None else {**kept, "TMPDIR": str(folder)}


@contextmanager
def folder_in_memory(memory: Path = MEMORY, room: int = ROOM) -> Iterator[Path | None]:
    """Make a folder in memory and delete it in the end, as those of runs that were killed; None if there is no room.

    A PostgreSQL that is copied there runs as another user: programs must run there, and others get into the folder.
    """
    for left in memory.glob(f"{PREFIX}*-*"):
        number = left.name.removeprefix(PREFIX).partition("-")[0]
        if number.isdecimal() and not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)
    try:
        has_room = shutil.disk_usage(memory).free >= room
        runs_programs = not os.statvfs(memory).f_flag & os.ST_NOEXEC
        folder = Path(tempfile.mkdtemp("", f"{PREFIX}{os.getpid()}-", memory)) if has_room and runs_programs else None
        if folder is not None:
            folder.chmod(0o711)
    except OSError:
        folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def obtain(script: Path, *, patience: float) -> str | None:
    """Run a script that gets something for tests, such as a server, unless it is there; return why not, or None."""
    try:
        process = subprocess.Popen([script, sys.executable], start_new_session=True)
    except OSError as error:
        return f"{script.name} does not start ({error.strerror})"
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        return f"not ready within {patience:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the installer that it started
            process.wait()
    return f"{script.name} failed with code {code}" if code else None


def checkout(command: str = "test") -> Path:
    """Return the root of the checkout that this package runs from; elsewhere, say that the command needs one."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "tests").is_dir() or not (root / "pyproject.toml").is_file():
        err.print(
            f"`headrace {command}` needs files that are not part of the installed package: clone Headrace's repository "
            f"and run ./headrace {command} in that checkout",
            markup=False,
        )
        raise typer.Exit(RUN_FAILED)
    return root


def _run(title: str, command: list[str], root: Path) -> Verdict:
    out.rule(f"[bold]{title}", align="left")
    sys.stdout.flush()
    if title == ON_SPARK:
        try:
            java.prepare()
        except HostFault as error:
            err.print(error.render(), markup=False)
            return "failed"
    started = time.monotonic()
    try:
        with folder_in_memory() if title in (FAST, SLOW) else nullcontext() as folder:
            variables = environment(os.environ, folder, title=title)
            code = subprocess.run(command, cwd=root, env=variables, check=False).returncode
    except FileNotFoundError:
        err.print(f"{command[0]} is not installed: run ./headrace setup", markup=False)
        code = 1
    verdict: Verdict = "passed" if code == 0 else "failed"
    if code == NOTHING_COLLECTED and "pytest" in command:
        verdict = "no tests"
    out.print(f"{STYLES[verdict]}{verdict}[/] in {time.monotonic() - started:.0f} s")
    return verdict
