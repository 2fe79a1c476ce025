"""Golden cursor scripts: a script, `---`, a message, `---`, the fields or why it is rejected; `====` divides cases. No message: the script is wrong.

`pytest tests/golden/test_cursor.py --update-golden` rewrites what comes out; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.applications.nfmi.cursor import Rejected, extract
from headrace.applications.nfmi.script import parse
from headrace.errors import QueryError

SCRIPTS = sorted((Path(__file__).parent / "cursor").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_cursor_scripts_give_what_the_golden_script_shows(path: Path, update_golden: bool) -> None:
    script = path.read_text()
    actual = "====\n".join(replay(case) for case in script.split("====\n"))
    if update_golden:
        path.write_text(actual)
    assert actual == script or update_golden


def replay(case: str) -> str:
    text, *parts = case.split("---\n")
    try:
        scripts = parse(text)
    except QueryError as error:
        return f"{text}---\n{error.render()}\n"
    message = parts[0]
    match extract(message, scripts):
        case Rejected() as rejected:
            found = f"rejected by {rejected}\n"
        case fields:
            found = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{text}---\n{message}---\n{found}"
