"""What happens without an extra: a clear error that names the command which installs it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from headrace import extras
from headrace.applications.nfmi.store import Store
from headrace.cli.main import app
from headrace.errors import HostFault
from headrace.experiments import table
from headrace.experiments.experiment import Experiment, Finding, Outcome, Panel, Series, Trial

ROOT = Path(__file__).resolve().parents[3]


def tiny(trial: Trial) -> Outcome:
    panel = Panel("Line", "x", "y", (Series("ours", ((0, 1), (1, 2))),))
    return Outcome((Finding("peak", 12.0, "confirmed", 12.0),), (panel,), ())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in an installed package: no launcher lies beside it."""
    monkeypatch.setattr(extras, "LAUNCHER", tmp_path / "headrace")


def without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "HEADRACE_DEBUG": ""}).invoke(app, list(arguments))
    return result.exit_code, result.output


@pytest.mark.usefixtures("installed")
def test_an_experiment_runs_without_matplotlib_and_says_what_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    without("matplotlib", monkeypatch)
    monkeypatch.setattr(table, "EXPERIMENTS", (Experiment("first", "First", "What?", "a paper", tiny),))
    code, output = run("experiment", "run", "first")
    assert code == 0
    assert "peak" in output
    assert "no figures are drawn" in output
    assert "pip install 'headrace[experiments]'" in output


@pytest.mark.usefixtures("installed")
def test_a_folder_for_figures_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without("matplotlib", monkeypatch)
    monkeypatch.setattr(table, "EXPERIMENTS", (Experiment("first", "First", "What?", "a paper", tiny),))
    code, output = run("experiment", "run", "first", "--figures", str(tmp_path))
    assert code == 1
    assert "peak" not in output
    assert "hint: pip install 'headrace[experiments]'" in output


@pytest.mark.usefixtures("installed")
def test_alarms_in_postgresql_need_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    without("psycopg", monkeypatch)
    with pytest.raises(HostFault, match="needs the package psycopg") as caught:
        Store("postgresql://localhost/alarms").prepare(())
    assert caught.value.hint == "pip install 'headrace[postgres]'"


@pytest.mark.usefixtures("installed")
def test_strategies_need_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "headrace.testing.strategies", raising=False)
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "hypothesis")
    with pytest.raises(ImportError, match=r"hypothesis.*pip install 'headrace\[testing\]'"):
        __import__("headrace.testing.strategies")


def test_a_checkout_installs_extras_with_its_launcher() -> None:
    assert extras.install_command("kafka") == "./headrace setup kafka"


def test_the_pins_are_within_what_the_package_asks_for() -> None:
    requirement = pytest.importorskip("packaging.requirements").Requirement
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {"run": project["dependencies"], **project["optional-dependencies"]}
    asked["dev"] = asked.pop("testing")
    asked["run"] = [*asked["run"], *asked.pop("serve")]  # a checkout always has them
    assert set(project["optional-dependencies"]) == set(get_args(extras.Extra))
    for name, lines in asked.items():
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        pins = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
        for line in map(requirement, lines):
            assert line.specifier.contains(pins[line.name]), f"{line} but {name}.txt pins {pins[line.name]}"


def test_an_extra_on_a_fresh_machine_brings_what_it_stands_on(tmp_path: Path) -> None:
    """The installer is a script that notes its arguments."""
    (tmp_path / "bin").mkdir()
    uv = tmp_path / "bin" / "uv"
    uv.write_text(
        f'#!/bin/sh\n[ "$1" != venv ] || exec "{sys.executable}" -m venv --without-pip "$4"\n'
        f'echo "$*" >>"{tmp_path}/calls"\n'
    )
    uv.chmod(0o755)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "headrace", tmp_path)
    subprocess.run(
        [tmp_path / "headrace", "setup", "kafka"],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    assert "-r run.txt -r kafka.txt" in (tmp_path / "calls").read_text().splitlines()[0]
