"""Golden scripts of queries: streams and tuples, a query, `---`, what comes out.

`pytest tests/golden/test_queries.py --update-golden` rewrites the results; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.golden import run_script

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "queries").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_queries_give_what_the_script_shows(path: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)  # the scripts name files in data/ and aggregates in examples/
    monkeypatch.syspath_prepend(HERE.parents[1] / "examples")
    script = path.read_text()
    actual = run_script(script)
    if update_golden:
        path.write_text(actual)
    assert actual == script or update_golden
