"""The command `headrace example`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.applications.application import Application, Check
from headrace.applications.table import APPLICATIONS
from headrace.cli import example
from headrace.cli.main import app
from headrace.cli.test import checkout


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "HEADRACE_DEBUG": ""}).invoke(
        app, ["example", *arguments]
    )
    return result.exit_code, result.output


def test_without_a_name_they_are_listed_each_with_a_page() -> None:
    code, output = invoke()
    assert code == 0
    for item in APPLICATIONS:
        assert item.name in output
        assert item.title.split()[0] in output
        assert (checkout() / "docs" / "applications" / f"{item.name}.md").exists()


def test_one_command_runs_an_application_and_keeps_what_it_made(tmp_path: Path) -> None:
    code, output = invoke("rfid", "--host", "local", "--folder", str(tmp_path / "here"))
    assert code == 0, output
    assert "as planted" in output
    assert "not as planted" not in output
    assert (tmp_path / "here" / "rfid.sql").exists()
    assert list((tmp_path / "here" / "out" / "missing").glob("*.json"))
    code, output = invoke("rfid", "--host", "local", "--folder", str(tmp_path / "here"))
    assert code == 2
    assert "not empty" in output


def test_an_unknown_name_is_told_with_what_was_meant() -> None:
    code, output = invoke("rfidd")
    assert code == 1
    assert "did you mean 'rfid'?" in output


def test_what_is_not_found_as_planted_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rfid = example.chosen("rfid")
    monkeypatch.setattr(type(rfid), "checks", lambda *_: (Check("nothing", [1], []),))
    code, output = invoke("rfid", "--host", "local")
    assert code == 1
    assert "not as planted" in output


@pytest.mark.parametrize("item", APPLICATIONS, ids=lambda item: item.name)
def test_each_page_shows_the_script_as_it_is(item: Application) -> None:
    page = (checkout() / "docs" / "applications" / f"{item.name}.md").read_text()
    blocks = [block.split("```")[0].strip() for block in page.split("```sql excerpt\n")[1:]]
    assert blocks
    assert [block for block in blocks if block not in item.script] == []
