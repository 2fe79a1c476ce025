"""The page about published designs: its rows are whole, what they name exists, and its counts are right."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from headrace.cli.test import checkout
from headrace.experiments.table import EXPERIMENTS

ROOT = checkout()
TEXT = (ROOT / "docs" / "coverage.md").read_text()
#: The section about where designs are shown, whose table has a form of its own.
SHOWN = "Where each design is shown"
HEADER = ["Section", "What it describes", "Here", "Test or bench", "State"]
STATES = ("yes", "partly", "not yet", "left out")
FILES = re.compile(r"`((?:tests|benches|src|examples)/[\w/.-]+)`")


def cells_of(line: str) -> list[str]:
    """Return the cells of a row; a bar within backticks would be a fault of the page."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def tables_of(text: str) -> dict[str, list[list[str]]]:
    """Return the rows of each table of coverage, by its heading."""
    tables: dict[str, list[list[str]]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if heading == SHOWN:
            continue
        header, rule, *rows = [line for line in body.splitlines() if line.startswith("|")]
        assert cells_of(header) == HEADER
        assert set(rule) <= set("|-")
        tables[heading] = [cells_of(row) for row in rows]
    return tables


TABLES = tables_of(TEXT)
ROWS = [row for rows in TABLES.values() for row in rows]


def state_of(row: list[str]) -> str:
    state = re.match(r"\*\*(.+?)\*\*", row[-1])
    assert state is not None, row
    return state[1]


@pytest.mark.parametrize("heading", TABLES)
def test_rows_have_all_cells_and_names_of_their_own(heading: str) -> None:
    rows = TABLES[heading]
    assert [row for row in rows if len(row) != len(HEADER) or not all(row)] == []
    assert [name for name, times in Counter(row[0] for row in rows).items() if times > 1] == []


def test_a_state_says_what_is_missing_or_why_and_what_is_there_has_a_test() -> None:
    assert {state_of(row) for row in ROWS} <= set(STATES)
    for row in ROWS:
        state, reason = state_of(row), row[-1].partition("**: ")[2]
        assert bool(reason) == (state in ("partly", "left out")), row
        assert state not in ("yes", "partly") or FILES.search(row[3]), row


def test_files_exist() -> None:
    files = FILES.findall(TEXT)
    assert len(files) > len(ROWS)
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert re.findall(r"(?<![`\w/])(?:tests|benches)/[\w/.]+", TEXT) == [], "paths stand in backticks"


def test_golden_scripts_and_tests_on_spark_of_designs_exist() -> None:
    section = TEXT.partition(f"## {SHOWN}\n")[2].partition("\n## ")[0]
    header, _, *rows = [cells_of(line) for line in section.splitlines() if line.startswith("|")]
    assert header == ["Design", "Golden", "Oracle", "Spark", "Restart"]
    assert len(rows) > 20
    for row in rows:
        assert len(row) == len(header)
        assert all(cell and cell != "-" for cell in row), row
        scripts, tests = re.findall(r"`([a-z_]+/[a-z_]+)`", row[1]), re.findall(r"`(test_\w+\.py)`", row[3] + row[4])
        assert [name for name in scripts if not (ROOT / "tests" / "golden" / f"{name}.txt").exists()] == []
        assert [name for name in tests if not (ROOT / "tests" / "spark" / name).exists()] == []


def test_experiments_exist_and_each_is_named() -> None:
    mentioned = {name for row in ROWS for name in re.findall(r"`(?:headrace experiment run )?([a-z-]+)`", row[2])}
    known = {experiment.name for experiment in EXPERIMENTS}
    assert {name for row in ROWS for name in re.findall(r"experiment run ([a-z-]+)", row[2])} <= known
    assert known - mentioned == set()


def test_the_summary_has_the_counts_of_the_tables() -> None:
    counts = Counter(state_of(row) for row in ROWS)
    parts = [f"{counts[state]} {state}" for state in STATES]
    assert f"**Summary:** {len(ROWS)} rows: {', '.join(parts[:-1])} and {parts[-1]}." in TEXT


def test_every_table_is_introduced() -> None:
    introduction = TEXT.partition("\n## ")[0]
    assert [heading for heading in TABLES if f"| [{heading}](#" not in introduction] == []
