"""Python code that statements name must be there when they are executed, not with the first tuple."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.errors import NameFault
from headrace.session import Session

STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUERY q AS SELECT k, IMPUTE(v USING 'python:nomodule:f' ON k) AS v FROM s",
        "SELECT k, IMPUTE(v USING 'python:math:nofunction' ON k) AS v FROM s",
        "CREATE AGGREGATE mine(INT) RETURNS INT FROM PYTHON 'nomodule:Mine'",
        "CREATE AGGREGATE mine(INT) RETURNS INT FROM PYTHON 'collections:Counter'",
        "CREATE STREAM t (k INT) FROM FILES (path '.', format 'python:nomodule:f')",
    ],
)
def test_code_that_is_not_there_is_refused_with_the_folders_that_were_searched(statement: str) -> None:
    with Session(host="local") as session:
        session.execute(STREAM)
        with pytest.raises(NameFault) as refused:
            session.execute(statement)
        assert refused.value.hint is not None
        assert "Python looks in" in refused.value.hint
        assert session.execute("SHOW QUERIES")[0].rows == ()


def test_code_that_is_written_after_a_refusal_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    statement = "CREATE QUERY q AS SELECT k, IMPUTE(v USING 'python:written_later:f' ON k) AS v FROM s INTO MEMORY"
    with Session(host="local") as session:
        session.execute(STREAM)
        with pytest.raises(NameFault, match="written_later"):
            session.execute(statement)
        (tmp_path / "written_later.py").write_text("def f(k):\n    return 7\n")
        session.execute(statement)
    sys.modules.pop("written_later", None)
