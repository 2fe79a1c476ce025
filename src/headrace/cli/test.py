"""`headrace test`: every check and test of a checkout, in sections."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from headrace.cli import java
from headrace.cli.output import RUN_FAILED, err, out
from headrace.errors import HostFault

EXAMPLES = (
    "Examples:\n\nheadrace test   (everything)\n\n"
    "headrace test tests/unit -k window   (the checks, then only these tests; arguments go to pytest)"
)
#: pytest's exit code for "nothing matched", which is no failure when arguments choose tests of one kind only.
NOTHING_COLLECTED = 5
#: Seconds that a server which tests use may take to arrive; the tests do not wait longer for it.
PATIENCE = 120


def test(context: typer.Context) -> None:
    """Run style, type and layer checks, then the fast tests, then the tests on Spark and Kafka. Works in a checkout only."""
    root = checkout()
    for script in sorted(root.glob("tests/*/setup")):
        if reason := obtain(script, patience=PATIENCE):
            err.print(f"{script.parent.name}: {reason}; tests that need it are skipped", markup=False)
    failed = [title for title, command in sections(context.args) if not _passes(title, command, root)]
    if failed:
        err.print(f"\n[bold red]failed:[/] {', '.join(failed)}")
        raise typer.Exit(RUN_FAILED)
    out.print("\n[bold green]all passed[/]")


def sections(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The checks in the order in which they say most about a mistake."""
    python = sys.executable
    scripts = Path(python).parent
    yield "ruff check", [python, "-m", "ruff", "check", "."]
    yield "ruff format", [python, "-m", "ruff", "format", "--check", "."]
    yield "mypy", [python, "-m", "mypy"]
    yield "layers", [str(scripts / "lint-imports")]
    pytest = [python, "-m", "pytest", "-q", *arguments]
    if "-m" in arguments:
        yield "tests", pytest
    else:
        # Spark's own tests run one at a time: they share a session
        yield "fast tests", [*pytest, "-m", "not spark and not kafka", "-n", str(min(4, os.cpu_count() or 1))]
        yield "tests on Spark", [*pytest, "-m", "spark and not kafka"]
        # and so do those that share a broker, on either host
        yield "tests on Kafka", [*pytest, "-m", "kafka"]


def obtain(script: Path, *, patience: float) -> str | None:
    """Run a script that gets a server for this Python's tests, which does nothing if it is there; why it could not, or None."""
    try:
        process = subprocess.Popen([script, sys.executable], start_new_session=True)
    except OSError as error:
        return f"{script.name} does not start ({error.strerror})"
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        return f"not here after {patience:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the installer that it started
            process.wait()
    return f"{script.name} failed with code {code}" if code else None


def checkout() -> Path:
    """The root of the checkout that this package runs from."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "tests").is_dir() or not (root / "pyproject.toml").is_file():
        err.print("this needs a checkout of Headrace's repository: run ./headrace there")
        raise typer.Exit(RUN_FAILED)
    return root


def _passes(title: str, command: list[str], root: Path) -> bool:
    out.rule(f"[bold]{title}", align="left")
    sys.stdout.flush()
    if title in ("tests on Spark", "tests on Kafka"):
        try:
            java.prepare()
        except HostFault as error:
            err.print(error.render(), markup=False)
            return False
    started = time.monotonic()
    try:
        code = subprocess.run(command, cwd=root, check=False).returncode
    except FileNotFoundError:
        err.print(f"{command[0]} is not installed: run ./headrace setup", markup=False)
        code = 1
    passed = code == 0 or (code == NOTHING_COLLECTED and "pytest" in command)
    out.print(f"{'[green]passed' if passed else '[bold red]failed'}[/] in {time.monotonic() - started:.0f} s")
    return passed
