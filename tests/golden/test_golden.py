"""Runs every golden script in the folders beside this file; `headrace.testing.golden.script` describes their format.

`pytest tests/golden --update-golden` (or `make golden`) rewrites the expected output; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.applications.nfmi.cursor import Rejected, extract
from headrace.applications.nfmi.script import Script, parse
from headrace.errors import QueryError
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.golden.runner import Verbs, run_script, run_together
from headrace.testing.golden.script import differences

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*/*.txt"))


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts name files in data/ and Python functions in examples/."""
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(HERE.parents[1] / "examples")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_script_gives_the_output_that_it_shows(path: Path, update_golden: bool) -> None:
    expected = path.read_text()
    actual = run_script(expected, verbs=cursor_verbs)
    if update_golden:
        path.write_text(actual)
    elif actual != expected:
        pytest.fail(
            differences(str(path.relative_to(HERE)), expected, actual)
            or "not as the runner writes scripts: --update-golden",
            pytrace=False,
        )


@pytest.mark.slow
def test_all_queries_in_one_deployment_whose_buckets_restart_give_the_same() -> None:
    scripts = [path.read_text() for path in SCRIPTS if path.parent.name == "queries"]
    with Session(host="local", buckets=3) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = True
        assert run_together(scripts, session, timeout=60) == scripts


def test_the_scripts_show_every_kind_of_query_error() -> None:
    shown = "".join(path.read_text() for path in SCRIPTS)
    assert all(f"{kind.code} {kind.__name__}: " in shown for kind in QueryError.__subclasses__())


def cursor_verbs() -> Verbs:
    """Verbs for scripts that read fields out of messages: `script` and `scripts` add scripts, `read` takes a message.

    The lines of a message begin with two blanks and a bar.
    """
    text = ""
    known: tuple[Script, ...] = ()

    def define(command: str) -> list[str]:
        nonlocal text, known
        text += command.removeprefix("scripts ") + "\n"
        known = parse(text)
        return []

    def read(command: str) -> list[str]:
        message = "".join(line.strip().removeprefix("|").removeprefix(" ") + "\n" for line in command.splitlines()[1:])
        match extract(message, known):
            case Rejected() as rejected:
                return [f"rejected by {rejected}"]
            case fields:
                return "".join(f"{name}: {value}\n" for name, value in fields.items()).splitlines()

    return {"script": define, "scripts": define, "read": read}
