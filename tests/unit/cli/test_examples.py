"""What the examples over fixed data give."""

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.cli.test import checkout
from headrace.session import Session

ROOT = checkout()


def results(script, queries, buckets):
    """The rows of each query of an example, hidden columns left out, sorted."""
    found = {query: [] for query in queries}
    with Session(host="local", buckets=buckets) as session:
        session.execute((ROOT / "examples" / script).read_text().replace("INTO CONSOLE", "INTO MEMORY"))
        for query, rows in found.items():
            take = lambda _, pages, rows=rows: rows.extend(row for page in pages for row in page.visible().rows())  # noqa: E731
            session.deployment.delivery.subscribers.setdefault(query, []).append(take)
        session.drain(timeout=30)
    return {query: sorted(rows) for query, rows in found.items()}


@pytest.mark.parametrize("buckets", [1, 3])
def test_rfid_packing_finds_the_case_of_each_product_and_the_seal_of_each_case(buckets, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = results("rfid_packing.sql", ("packed", "contents", "closed"), buckets)
    packed = [(line, box, tag, at.second) for line, box, tag, at in found["packed"]]
    assert packed == [
        (1, "B-100", "comb", 10),  # the next case came at the same time, so not before it
        (1, "B-100", "soap", 3),
        (1, "B-100", "soap", 5),
        (1, "B-101", "brush", 11),
        (1, "B-102", "soap", 22),
        (2, "B-200", "tea", 3),
        (2, "B-200", "tea", 9),
        (2, "B-201", "salt", 15),
    ]
    assert [(box, count) for box, count, _ in found["contents"]] == [("B-100", 3), ("B-101", 1), ("B-102", 1), ("B-200", 2), ("B-201", 1)]
    closed = [(line, box, seal, waited.seconds) for line, box, seal, waited in found["closed"]]
    assert closed == [
        (1, "B-100", "S-1", 11),
        (1, "B-101", "S-3", 4),
        (2, "B-200", "S-2", 11),
        (2, "B-201", "S-5", 19),
        (2, "B-202", "S-6", 35),
    ]


def test_rfid_packing_runs_from_the_command_line(monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, ["run", "examples/rfid_packing.sql", "--once", "--host", "local"])
    assert result.exit_code == 0, result.output
    assert all(query in result.output for query in ("packed", "contents", "closed"))
