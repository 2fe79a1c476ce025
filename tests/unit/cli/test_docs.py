import re
from pathlib import Path

import pytest

from headrace.cli.test import checkout
from headrace.connectors import SINKS, SOURCES, console, socket
from headrace.connectors.files import sink as files_sink
from headrace.connectors.files import source as files
from headrace.connectors.generator import source as generator
from headrace.language.parser import parse
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.plan.binding.function import ALIASES
from headrace.session import Session

ROOT = checkout()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SCRIPTS = sorted((ROOT / "examples").glob("*.sql"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_every_function_is_in_the_language_reference() -> None:
    text = (ROOT / "docs" / "language.md").read_text().replace("\\|", "|")
    missing = [name for name in (*FUNCTIONS, *AGGREGATES) if f"| `{name}` |" not in text]
    assert missing == []


def test_the_readme_shows_the_first_example() -> None:
    first = (ROOT / "examples" / "first.sql").read_text()
    shown = first[first.index("CREATE") :].strip()
    assert shown in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_examples_are_statements(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(parse(script.read_text())) >= 2
    assert "output of query" in plans(script.read_text(), monkeypatch)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "docs" / "language.md", ROOT / "docs" / "promises.md"],
    ids=lambda page: page.stem,
)
def test_sql_in_the_docs_makes_plans(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    assert "output of query" in plans("\n".join(blocks), monkeypatch)


def test_every_option_of_a_connector_is_in_the_language_reference() -> None:
    text = (ROOT / "docs" / "language.md").read_text()
    options = {*console.OPTIONS, *files.OPTIONS, *files_sink.OPTIONS, *generator.OPTIONS, *socket.OPTIONS, "mode"}
    assert [name for name in sorted(options) if not re.search(rf"^\| (`\w+`, )?`{name}`", text, re.MULTILINE)] == []
    assert [kind for kind in {*SOURCES, *SINKS} if f"| `{kind}` |" not in text] == []


def test_every_other_name_of_a_function_is_in_the_language_reference() -> None:
    text = (ROOT / "docs" / "language.md").read_text()
    assert [name for name in ALIASES if f"`{name}`" not in text] == []


def plans(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the statements of a text would run; they name files from the root of the repository."""
    monkeypatch.chdir(ROOT)
    with Session(host="local") as session:
        return session.explain(text)
