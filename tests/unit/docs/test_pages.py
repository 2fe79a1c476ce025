"""Every example of the documentation is run, or at least planned.

The first word behind a fence is the language, the second says what a test does with the block:

    sql                runs on the local host; the blocks of a page share a session, which is drained at the end
    sql plan           is planned only: it needs a broker, a server, Spark, or a function that is not here
    sql excerpt        part of a script that another test reads (the pages of applications)
    sql flink|spark    the SQL of another system
    python             runs; the blocks of a page share their names
    python excerpt     needs something that is not here
    text output        what the Python block before it prints
    text results q     what query q gives, in any order
    sh                 each `headrace` command exists, has the options it is given, and names files that exist
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import polars as pl
import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.cli.test import checkout
from headrace.connectors.console import block as console_block
from headrace.session import Session

ROOT = checkout()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
KINDS = {
    "sql": {"", "plan", "excerpt", "flink", "spark"},
    "python": {"", "excerpt"},
    "text": {"", "output", "results"},
    "sh": {""},
    "json": {""},
    "toml": {""},
}
COMMANDS: Any = typer.main.get_command(app)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    kind: str
    argument: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```(\S+)?(?: (\S+))?(?: (\S+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        Block(match[1] or "", match[2] or "", match[3] or "", match[4], text.count("\n", 0, match.start()) + 1)
        for match in found
    ]


def pages_with(language: str, *kinds: str) -> list[Path]:
    return [
        page for page in PAGES if any(block.language == language and block.kind in kinds for block in blocks_of(page))
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that sees the examples, as a user's checkout does, and writes beside them."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    if importlib.util.find_spec("confluent_kafka") is None:  # to plan a query, having the client is enough
        monkeypatch.setitem(sys.modules, "confluent_kafka", ModuleType("confluent_kafka"))
    yield tmp_path
    for module in ("archive", "means"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page: Path) -> None:
    wrong = [
        f"line {block.line}: {block.language} {block.kind}"
        for block in blocks_of(page)
        if block.kind not in KINDS.get(block.language, set())
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_at_most_120_columns(page: Path) -> None:
    cannot_break = re.compile(r"^\s*\||^!\[|^\s*- \[[^]]*\]\([^)]*\)$")  # rows of tables, pictures, single links
    lines = page.read_text().splitlines()
    assert [line for line in lines if len(line) > 120 and not cannot_break.match(line)] == []


@pytest.mark.parametrize("page", pages_with("sql", "", "plan"), ids=name_of)
def test_sql_makes_plans(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [block.text for block in blocks_of(page) if block.language == "sql" and block.kind in ("", "plan")]
    with Session(host="local") as session:
        session.register("close_road", print)  # what the pages leave to the reader to write
        monkeypatch.setitem(sys.modules, "police", SimpleNamespace(notify=print))
        assert session.explain("\n".join(texts))


@pytest.mark.parametrize("page", pages_with("sql", ""), ids=name_of)
def test_sql_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = blocks_of(page)
    results: dict[str, list[dict[str, Any]]] = {
        block.argument: [] for block in blocks if block.language == "text" and block.kind == "results"
    }
    with Session(host="local") as session:
        for query, rows in results.items():
            session.subscribe(query, lambda _, delivered, rows=rows: rows.extend(delivered))  # type: ignore[misc]
        for block in blocks:
            if block.language == "sql" and not block.kind:
                session.execute(block.text)
        session.drain(100)
    for block in blocks:
        if block.language == "text" and block.kind == "results":
            assert sorted(shown(results[block.argument])) == sorted(block.text.splitlines()), block.argument


@pytest.mark.parametrize("page", pages_with("python", ""), ids=name_of)
def test_python_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.session.session.Session.__init__", on_the_local_host())
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks_of(page):
        if block.language == "python" and not block.kind:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            printed = out.getvalue()
            comment = re.search(r"print\(.*\)  # (.*)$", block.text, re.MULTILINE)
            assert comment is None or comment[1] in printed
        if block.language == "text" and block.kind == "output":
            assert printed == block.text


def test_the_page_of_network_faults_reads_the_alarms(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = CliRunner().invoke(app, ["example", "nfmi", "--host", "local", "--folder", "here"])
    assert result.exit_code == 0, result.output
    (block,) = (block for block in blocks_of(ROOT / "docs/applications/nfmi.md") if block.language == "python")
    exec(block.text, {})
    assert capsys.readouterr().out.strip() == block.text.split("  # ")[-1].splitlines()[0]


@pytest.mark.parametrize("page", pages_with("json", ""), ids=name_of)
def test_json_is_json(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    wrong = [f"{line}: {fault}" for line in command_lines(page) for fault in faults_of(line, page)]
    assert wrong == []


@pytest.mark.parametrize("name", sorted(COMMANDS.commands))
def test_commands_have_help(name: str) -> None:
    assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    missing = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        file = (page.parent / target) if target else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            missing.append(f"{target}#{anchor}")
    assert missing == []


def test_every_page_of_the_documentation_is_listed() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [
        page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md" and "decisions" not in page.parts
    ]
    assert [name_of(page) for page in pages if f"({page.relative_to(ROOT / 'docs')})" not in index] == []


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as the console shows them, without its indentation."""
    text = console_block("", pl.DataFrame(rows, infer_schema_length=None), len(rows))
    return [line[2:] for line in text.splitlines()[1:]]


def on_the_local_host() -> Any:
    original = Session.__init__

    def init(self: Session, checkpoint: Path | str | None = None, **options: Any) -> None:
        original(self, checkpoint, **{**options, "host": "local"})

    return init


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def command_lines(page: Path) -> list[str]:
    """The `headrace` commands of a page: those of shell blocks, and those in backticks."""
    shell = [line for block in blocks_of(page) if block.language == "sh" for line in block.text.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [*shell, *re.findall(r"`((?:\./)?headrace [^`\n]+)`", prose)]
    return [line for line in lines if re.match(r"(\./)?headrace( |$)", line)]


def faults_of(line: str, page: Path) -> list[str]:
    words = [word for word in shlex.split(re.split(r" [|<>] ", line)[0], comments=True)[1:] if word != "--debug"]
    if not words or words[0] == "setup" or not words[0].islower() or "." in words[0]:
        return []
    command = COMMANDS.commands.get(words[0])
    if command is None:
        return [f"no command {words[0]}"]
    if isinstance(command, TyperGroup) and len(words) > 1:
        command = command.commands.get(words[1], command)
    if (
        words[0] == "bench"
        and len(words) > 1
        and words[1].isidentifier()
        and not (ROOT / "benches" / f"{words[1]}.py").exists()
    ):
        return [f"no bench {words[1]}"]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    faults = [word for word in words if word.startswith("--") and word not in options]
    written = re.findall(r"`([\w/]+\.sql)`", page.read_text())
    faults += [word for word in words if word.endswith(".sql") and not (ROOT / word).exists() and word not in written]
    return [f"{fault} does not exist" for fault in faults]


def test_the_glossary_is_one_table_in_the_order_of_its_words() -> None:
    lines = (ROOT / "GLOSSARY.md").read_text().splitlines()
    rows = [number for number, line in enumerate(lines) if line.startswith("|")]
    words = [lines[number].split("|")[1].strip().lower() for number in rows]
    assert rows == list(range(rows[0], rows[0] + len(rows)))
    assert words[:2] == ["word", "---"]
    assert words[2:] == sorted(words[2:])
