"""The reference is complete: every function, aggregate, connector and option has its row, every example its page."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.cli.test import checkout
from headrace.connectors import SINKS, SOURCES, console, socket
from headrace.connectors.files import sink as files_sink
from headrace.connectors.files import source as files
from headrace.connectors.generator import source as generator
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.errors import HeadraceError
from headrace.language.parser import parse
from headrace.language.syntax.statements import Show
from headrace.model.events.event import Mode
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.model.qos import OPTIONS
from headrace.plan.binding.expressions.function import ALIASES
from headrace.session import Session

ROOT = checkout()
REFERENCE = ROOT / "docs" / "reference"
SCRIPTS = sorted((ROOT / "examples").glob("*.sql"))


def test_every_function_has_a_row() -> None:
    text = page("functions").replace("\\|", "|")
    assert [name for name in FUNCTIONS if f"| `{name}` |" not in text] == []
    assert [name for name in AGGREGATES if f"| `{name}` |" not in page("aggregates")] == []


def test_every_other_name_of_a_function_is_listed() -> None:
    text = page("functions") + page("aggregates")
    assert [name for name in ALIASES if f"`{name}`" not in text] == []


def test_every_option_of_a_connector_has_a_row() -> None:
    text = page("connectors")
    options = {*console.OPTIONS, *files.OPTIONS, *files_sink.OPTIONS, *generator.OPTIONS, *socket.OPTIONS, "mode"}
    assert [name for name in sorted(options) if not re.search(rf"^\| (`\w+`, )?`{name}`", text, re.MULTILINE)] == []
    assert [kind for kind in {*SOURCES, *SINKS} if f"| `{kind}` |" not in text] == []


def test_every_error_has_a_row() -> None:
    codes = {error.code for error in errors_of(HeadraceError) if not error.code.endswith("00")}
    assert [code for code in sorted(codes) if f"| {code} |" not in page("statements")] == []


def test_every_scheduler_is_explained() -> None:
    names = [name for name in SCHEDULERS if name != "none"]
    assert [name for name in names if f"`{name}`" not in page("settings")] == []
    assert [name for name in names if not re.search(rf"^\| `{name}`", guide("promises"), re.MULTILINE)] == []


def test_every_promise_has_a_row() -> None:
    assert [name for name in OPTIONS if f"| `{name}` |" not in guide("promises")] == []


def test_every_mode_has_a_row() -> None:
    assert [mode.name for mode in Mode if f"| {mode.name} |" not in guide("events")] == []


def test_everything_that_can_be_shown_is_listed() -> None:
    shown = get_args(get_type_hints(Show)["what"])
    assert len(shown) > 5
    assert [what for what in shown if what not in page("statements")] == []


def test_every_method_of_a_session_is_listed() -> None:
    methods = [name for name, value in vars(Session).items() if callable(value) and not name.startswith("_")]
    assert [name for name in methods if f"`{name}(" not in page("python")] == []


def test_the_readme_shows_the_first_example() -> None:
    first = (ROOT / "examples" / "first.sql").read_text()
    shown = first[first.index("CREATE") :].strip()
    assert shown in (ROOT / "README.md").read_text()


def test_the_tutorial_shows_the_example_of_overload() -> None:
    script = (ROOT / "examples" / "overload.sql").read_text()
    shown = script[script.index("CREATE") : script.index("-- Which share")].strip()
    assert shown in (ROOT / "docs" / "tutorial.md").read_text()


def test_the_tutorial_shows_the_errors_of_its_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "tutorial.md").read_text()
    script = text.split("```sql\n")[1].split("```")[0]
    for mistake in (script.replace("avg(price)", "avg(pric)"), script.replace(" [RANGE 1 MINUTE]", "")):
        with Session(host="local") as session, pytest.raises(HeadraceError) as error:
            session.execute(mistake)
        assert error.value.render(mistake) in text


def test_the_tutorial_shows_how_its_query_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "tutorial.md").read_text()
    with Session(host="local") as session:
        assert session.explain(text.split("```sql\n")[1].split("```")[0]) in text


def test_the_tutorial_shows_a_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner(env={"COLUMNS": "300"}).invoke(
        app, ["plan", "examples/promises.sql", "--rate", "probes=2000000/s"]
    )
    assert result.exit_code == 4
    promise = next(line for line in result.output.splitlines() if line.startswith("slow_roads: latency"))
    assert promise.split() in windows_of((ROOT / "docs" / "tutorial.md").read_text().split(), len(promise.split()))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_examples_make_plans(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(script.parent)  # as `headrace run` does
    assert len(parse(script.read_text())) >= 2
    with Session(host="local") as session:
        assert "output of query" in session.explain(script.read_text())


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text()


def guide(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def windows_of(words: list[str], size: int) -> list[list[str]]:
    return [words[start : start + size] for start in range(len(words) - size + 1)]


def errors_of(error: type[HeadraceError]) -> list[type[HeadraceError]]:
    return [error, *(below for subclass in error.__subclasses__() for below in errors_of(subclass))]
