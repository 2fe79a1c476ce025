import re
from pathlib import Path

import pytest

from headrace.cli.test import checkout
from headrace.elements.functions import AGGREGATES, FUNCTIONS
from headrace.language.parser import parse

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
def test_examples_are_statements(script: Path) -> None:
    assert len(parse(script.read_text())) >= 2
