"""Names of modules, classes and files that the pages about the code mention exist."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import headrace
from headrace.cli.test import checkout

ROOT = checkout()
#: Decisions are left out: they speak of the code as it was.
GUIDES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts)
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "GLOSSARY.md", ROOT / "CONTRIBUTING.md", *GUIDES]
FOLDERS = {module.name for module in pkgutil.iter_modules(headrace.__path__)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_dotted_names_exist(page: Path) -> None:
    names = re.findall(r"`(?:headrace\.)?([a-z_]+(?:\.\w+)+)(?:\(\))?`", prose(page))
    ours = [
        name for name in names if name.split(".")[0] in FOLDERS and not name.endswith((".py", ".md", ".sql", ".jsonl"))
    ]
    assert [name for name in ours if not resolves(f"headrace.{name}")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_exist(page: Path) -> None:
    files = re.findall(r"`((?:src|tests|benches|docs|examples|requirements|[a-z_]+)/[\w/.-]+)`", prose(page))
    ours = [name for name in files if name.split("/")[0] in {*FOLDERS, "tests", "benches", "docs", "examples"}]
    roots = (ROOT, ROOT / "src" / "headrace")
    assert [name for name in ours if not any((root / name).exists() for root in roots)] == []


def test_every_folder_is_in_the_table_of_the_architecture() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(FOLDERS - {"__main__"}) == sorted(listed)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one (of a class in it, too)."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for attribute in parts[cut:]:
            fields = {field for kind in getattr(found, "__mro__", ()) for field in getattr(kind, "__annotations__", {})}
            if attribute in fields:
                return True
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False
