import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.experiments import table
from headrace.experiments.experiment import Experiment, Finding, Outcome, Panel, Range, Series, Trial
from headrace.experiments.table import EXPERIMENTS


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "HEADRACE_DEBUG": ""}).invoke(
        app, ["experiment", *arguments]
    )
    return result.exit_code, result.output


def tiny(trial: Trial) -> Outcome:
    trial.progress("counting", 0, 1)
    findings = (
        Finding("idle share", 99.9, "confirmed", 99.0, 99.90, "%"),
        Finding("peak", 12.0, "not confirmed", None, Range(2, 3)),
        Finding("seed", float(trial.seed), "not comparable", "thousands"),
    )
    return Outcome(
        findings, (Panel("Line", "x", "y", (Series("ours", ((0, 1), (1, 2))),)),), (f"at scale {trial.scale}",)
    )


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    items = tuple(Experiment(name, name.title(), f"What of {name}?", "a paper", tiny) for name in ("first", "second"))
    monkeypatch.setattr(table, "EXPERIMENTS", items)


def test_the_list_tells_every_name_question_and_need() -> None:
    code, output = invoke("list")
    assert code == 0
    assert all(item.name in output for item in EXPERIMENTS)
    assert "simulation, Spark" in output


def test_names_are_unique_and_questions_are_questions() -> None:
    assert len({item.name for item in EXPERIMENTS}) == len(EXPERIMENTS)
    assert all(item.question.endswith("?") for item in EXPERIMENTS)
    assert [item.name for item in EXPERIMENTS if item.needs == "Java"] == ["idle-waiting-on-spark"]


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("list", "--help")])
def test_every_command_explains_itself_with_examples(arguments: tuple[str, ...]) -> None:
    code, output = invoke(*arguments)
    assert code == 0
    assert "Examples:" in output


def test_an_experiment_that_cannot_run_on_spark_says_which_can() -> None:
    code, output = invoke("run", "bursts", "--on", "spark")
    assert code != 0
    assert (
        "bursts runs in a simulation only; on Spark there are: idle-waiting, speed-map, scheduling, shedding"
        in " ".join(output.split())
    )


@pytest.mark.usefixtures("listed")
def test_a_run_prints_findings_with_verdicts_and_draws(tmp_path: Path) -> None:
    code, output = invoke("run", "first", "--quick", "--seed", "7", "--figures", str(tmp_path))
    assert code == 0
    for text in (
        "idle share",
        "99 %",
        "99.9 %",
        "confirmed",
        "2 - 3",
        "not confirmed",
        "thousands",
        "at scale quick",
        "What of first?",
    ):
        assert text in output
    assert "seed 7" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.png", "first.svg"]
    assert str(tmp_path / "first.png") in output


@pytest.mark.usefixtures("listed")
def test_all_of_them_go_to_one_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "findings.json"
    code, _ = invoke("run", "all", "--figures", str(tmp_path), "--json", str(file))
    found = json.loads(file.read_text())
    assert code == 0
    assert (found["scale"], list(found["outcomes"])) == ("normal", ["first", "second"])
    assert found["outcomes"]["first"]["findings"][1]["simulator"] == {"low": 2, "high": 3}


@pytest.mark.usefixtures("listed")
def test_an_unknown_name_gets_the_nearest_one() -> None:
    code, output = invoke("run", "secnod")
    assert code == 1
    assert "no experiment 'secnod'; did you mean 'second'?" in output
    assert "there are: first, second" in invoke("run", "xyz")[1]


@pytest.mark.usefixtures("listed")
def test_quick_and_full_exclude_each_other() -> None:
    code, output = invoke("run", "first", "--quick", "--full")
    assert code == 2
    assert "not both" in output
