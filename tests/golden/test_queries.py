"""Golden scripts of queries: streams and tuples, a query, `---`, what comes out.

`pytest tests/golden/test_queries.py --update-golden` rewrites the results; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.golden import run_script, run_together

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "queries").glob("*.txt"))


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts name files in data/ and aggregates in examples/."""
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(HERE.parents[1] / "examples")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_queries_give_what_the_script_shows(path: Path, update_golden: bool) -> None:
    script = path.read_text()
    actual = run_script(script)
    if update_golden:
        path.write_text(actual)
    assert actual == script or update_golden


def test_all_queries_in_one_deployment_whose_buckets_restart_give_the_same() -> None:
    scripts = [path.read_text() for path in SCRIPTS]
    with Session(host="local", buckets=3) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = True
        assert run_together(scripts, session, timeout=60) == scripts
