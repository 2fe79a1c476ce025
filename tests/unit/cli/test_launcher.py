"""The launcher of a checkout, with an installer that only writes down what it is asked to install."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace import __version__
from headrace.cli.main import app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[3]
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)] or ["sh"]
HELP_FILE = ROOT / "src" / "headrace" / "cli" / "help.txt"
HELP = {
    part.split("\n", 1)[0]: part.split("\n", 1)[1].rstrip("\n") + "\n"
    for part in HELP_FILE.read_text().split("== ")[1:]
}
PRINT_HELP = """
import typer
from typer.testing import CliRunner
from headrace.cli.main import app

for name in typer.main.get_command(app).commands:
    if name != "setup":
        lines = CliRunner().invoke(app, [name, "--help"], prog_name="./headrace").output.splitlines()
        print(f"== {name}", *(line.rstrip() for line in lines), sep="\\n")
"""
#: `uv venv` makes an environment whose `headrace` prints its arguments; `uv pip install` obeys the file `order`.
UV = """#!/bin/sh
set -eu
echo "$@" >>"$FAKE/calls"
case $1 in
    venv)
        for last; do :; done
        mkdir -p "$last/bin"
        ln -s "$PYTHON" "$last/bin/python"
        printf '#!/bin/sh\\necho ran "$@"\\necho ${HEADRACE_CONSOLE:+console $HEADRACE_CONSOLE} | grep . || true\\n' \\
            >"$last/bin/headrace"
        chmod +x "$last/bin/headrace" ;;
    pip)
        case $(cat "$FAKE/order") in
            fail) for line in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do echo "reason $line"; done; exit 3 ;;
            hang) exec sleep 600 ;;
        esac ;;
esac
"""


class Checkout:
    """A folder with the launcher and its requirement files, and the installer above on PATH."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.root, self.shell, self._fake = folder / "checkout", shell, folder / "fake"
        (self.root / "src" / "headrace").mkdir(parents=True)
        self._fake.mkdir()
        shutil.copy(ROOT / "headrace", self.root)
        shutil.copytree(ROOT / "requirements", self.root / "requirements")
        shutil.copy(ROOT / "src" / "headrace" / "__init__.py", self.root / "src" / "headrace")
        (self.root / "src" / "headrace" / "cli").mkdir()
        shutil.copy(HELP_FILE, self.root / "src" / "headrace" / "cli")
        (self._fake / "uv").write_text(UV)
        (self._fake / "uv").chmod(0o755)
        self.order("obey")

    def order(self, what: str) -> None:
        (self._fake / "order").write_text(what)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        environment = {**os.environ, "FAKE": str(self._fake), "PYTHON": sys.executable, "PYTHONPATH": ""}
        environment["PATH"] = f"{self._fake}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen(
            [self.shell, "./headrace", *arguments],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def calls(self) -> list[str]:
        """What the installer was asked for since the last question, by the name of the requirement file."""
        return [Path(line.split()[-1]).stem if "-r " in line else line.split()[0] for line in self.asked()]

    def asked(self) -> list[str]:
        """The arguments of the installer since the last question."""
        file = self._fake / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines


@pytest.fixture(params=SHELLS)
def checkout(tmp_path: Path, request: pytest.FixtureRequest) -> Checkout:
    return Checkout(tmp_path, request.param)


def test_help_needs_no_installation_and_lists_every_command(checkout: Checkout) -> None:
    commands = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    for arguments in ((), ("--help",), ("-h",), ("setup", "--help")):
        code, output, _ = checkout.run(*arguments)
        assert code == 0
        assert [name for name in commands if f"\n  {name} " not in output] == []
    assert checkout.run("--version")[:2] == (0, f"headrace {__version__}\n")
    assert checkout.calls() == []
    assert not (checkout.root / ".venv").exists()


def test_help_of_a_command_installs_nothing(checkout: Checkout) -> None:
    for name, text in HELP.items():
        assert checkout.run(name, "--help")[:2] == (0, text)
    assert checkout.run("bench", "core", "-h")[:2] == (0, HELP["bench"])
    assert checkout.calls() == []
    assert not (checkout.root / ".venv").exists()


def test_help_of_a_command_comes_from_the_installation_if_there_is_one(checkout: Checkout) -> None:
    assert checkout.run("demo")[0] == 0
    checkout.calls()
    (checkout.root / "requirements" / "run.txt").write_text("numpy==99\n")
    assert checkout.run("test", "--help")[:2] == (0, "ran test --help\n")
    assert checkout.calls() == []


def test_help_without_an_installation_is_what_the_commands_print(update_golden: bool) -> None:
    environment = {**os.environ, "HEADRACE_PROGRAM": "./headrace", "TERM": "dumb", "COLUMNS": "100"}
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_HELP], env=environment, capture_output=True, text=True, check=True
    ).stdout
    if update_golden:
        HELP_FILE.write_text(printed)
    assert HELP_FILE.read_text() == printed


def test_each_command_gets_its_packages_once(checkout: Checkout) -> None:
    for arguments, packages in (
        (("demo",), "run"),
        (("experiment", "list"), "experiments"),
        (("bench", "core"), None),
        (("test", "-k", "some words"), "dev"),
        (("experiment", "list"), None),
    ):
        assert checkout.run(*arguments)[:2] == (0, f"ran {' '.join(arguments)}\n")
        calls = checkout.calls()
        assert (packages in calls) if packages else calls == []


def test_only_serve_is_told_how_to_build_a_console_that_is_not_there(checkout: Checkout) -> None:
    (checkout.root / "web").mkdir()
    asked = checkout.root / "asked"
    build = checkout.root / "web" / "build"
    build.write_text(
        f"import sys\nwith open({str(asked)!r}, 'a') as file: print(sys.argv[1:], file=file)\nsys.exit(1)\n"
    )
    for arguments in (("demo",), ("run", "a.sql"), ("test",), ("serve", "--help")):
        assert checkout.run(*arguments)[0] == 0
        assert not asked.exists(), arguments
    assert checkout.run("serve", "a.sql")[:2] == (0, f"ran serve a.sql\nconsole {build}\n")
    assert asked.read_text() == "['--check']\n"
    build.write_text("")  # the console is there
    assert checkout.run("serve", "a.sql")[:2] == (0, "ran serve a.sql\n")


def test_packages_are_installed_only_with_the_hashes_of_the_requirement_files(checkout: Checkout) -> None:
    assert checkout.run("setup")[0] == 0
    asked = [line for line in checkout.asked() if "-r " in line]
    assert asked
    assert [line for line in asked if "--require-hashes" not in line] == []


def test_setup_installs_everything_or_an_extra(checkout: Checkout) -> None:
    code, output, errors = checkout.run("setup", "kafka")
    assert (code, output) == (0, "")
    assert "everything is installed" in errors
    assert "kafka" in checkout.calls()
    assert checkout.run("setup")[0] == 0
    assert "dev" in checkout.calls()
    code, _, errors = checkout.run("setup", "kafak")
    assert code == 2
    assert "no extra 'kafak'; there are: kafka, objects, postgres, serve, otlp, testing, experiments" in errors


def test_changed_requirements_are_installed(checkout: Checkout) -> None:
    assert checkout.run("demo")[0] == 0
    checkout.calls()
    (checkout.root / "requirements" / "run.txt").write_text("numpy==99\n")
    assert checkout.run("demo")[0] == 0
    assert "venv" not in (calls := checkout.calls())
    assert "run" in calls


def test_a_failure_shows_the_last_lines_and_the_log(checkout: Checkout) -> None:
    checkout.order("fail")
    code, output, errors = checkout.run("demo")
    assert (code, output) == (1, "")
    assert "reason 17" in errors
    assert "reason 2\n" not in errors
    assert str(checkout.root / ".headrace" / "install.log") in errors
    checkout.order("obey")
    assert checkout.run("demo")[:2] == (0, "ran demo\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_installation_starts_again_with_an_empty_environment(checkout: Checkout, number: int) -> None:
    checkout.order("hang")
    process = checkout.start("demo")
    mark = checkout.root / ".headrace" / "install.pid"
    deadline = time.monotonic() + 60
    while "run" not in checkout.calls():  # past the virtual environment, into the packages
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    if number == signal.SIGKILL:
        os.kill(int(mark.read_text().split()[1]), signal.SIGKILL)  # it would be waited for
    else:
        assert process.returncode == 130
        assert "interrupted" in errors
    (checkout.root / ".venv" / "half").touch()
    checkout.order("obey")
    assert checkout.run("demo")[:2] == (0, "ran demo\n")
    assert not (checkout.root / ".venv" / "half").exists()
    assert not mark.exists()


def test_a_checkout_that_was_moved_gets_a_new_environment(checkout: Checkout) -> None:
    assert checkout.run("demo")[0] == 0
    checkout.calls()
    checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
    assert checkout.run("demo")[:2] == (0, "ran demo\n")
    assert "venv" in checkout.calls()
