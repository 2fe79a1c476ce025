"""Which Python code statements may name: what lies beside the script, and what is listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HostFault, NameFault, SourceFault
from headrace.hosts.spark.source import HeadraceReader
from headrace.model import allowed_python
from headrace.model.allowed_python import VARIABLE, Allowed, allow, allowed
from headrace.model.python_target import PythonTarget
from headrace.session import Session

FORMAT = "CREATE STREAM s (x INT) FROM FILES (path '{folder}/in', format 'python:{target}');"


@pytest.fixture(autouse=True)
def nothing_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(allowed_python, "_given", Allowed())


def load(text: str) -> object:
    return PythonTarget.parse(text).load("the function", error=NameFault)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that notes beside itself that it was imported."""
    (tmp_path / "police_notes.py").write_text(
        "from pathlib import Path\nfrom subprocess import getoutput\nimport json\n"
        "Path(__file__).with_suffix('.ran').touch()\n"
        "def read(text):\n    return {'x': int(text)}\n"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "police_notes", raising=False)
    return tmp_path


@pytest.mark.parametrize("target", ["subprocess:getoutput", "os:system", "builtins:eval", "polars:read_csv"])
@pytest.mark.parametrize(
    "statement",
    [
        FORMAT,
        "CREATE AGGREGATE a(INT) RETURNS INT FROM PYTHON '{target}';",
        "CREATE STREAM m (x INT, y INT) FROM MEMORY;"
        "CREATE QUERY q AS SELECT x, IMPUTE(y USING 'python:{target}' ON x) AS z FROM m;",
        "CREATE STREAM m (x INT) FROM MEMORY; CREATE RULE r ON m DO CALL PYTHON '{target}' (x);",
    ],
)
def test_no_statement_can_name_the_standard_library_or_an_installed_package(
    statement: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    with Session(host="local") as session, pytest.raises((NameFault, SourceFault)) as refused:
        session.execute(statement.format(folder=tmp_path, target=target))
    module = target.partition(":")[0]
    assert f"statements may not use the module {module}" in refused.value.message
    assert f"--allow-python {module}" in str(refused.value.hint)


def test_a_module_that_is_not_allowed_is_not_even_imported(module: Path) -> None:
    with pytest.raises(NameFault, match="may not use the module police_notes"):
        load("police_notes:read")
    assert not (module / "police_notes.ran").exists()


def test_a_module_beside_the_script_is_allowed(module: Path) -> None:
    allow(folders=[str(module)])
    assert callable(load("police_notes:read"))
    assert (module / "police_notes.ran").exists()


def test_what_a_module_beside_the_script_imports_is_not_its_own(module: Path) -> None:
    allow(folders=[str(module)])
    with pytest.raises(NameFault, match="it comes from the module subprocess, which statements may not use"):
        load("police_notes:getoutput")


@pytest.mark.parametrize(
    ("entry", "name", "is_allowed"),
    [
        ("json", "json", True),
        ("json", "json.decoder", False),
        ("json.*", "json.decoder", True),
        ("json.*", "json", True),
        ("json.*", "json2", False),
        ("json.decoder", "json", False),
        ("*", "subprocess", True),
        ("js", "json", False),
    ],
)
def test_an_entry_is_a_module_or_a_whole_package(entry: str, name: str, is_allowed: bool) -> None:
    assert Allowed((entry,)).allows(name) is is_allowed


def test_the_environment_and_the_session_list_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "math, base64")
    assert callable(load("base64:b64encode"))
    with Session(host="local", python_modules=["json.*"]):
        assert callable(load("json.decoder:JSONDecoder"))
        assert allowed().modules == ("json.*", "math", "base64")
    with pytest.raises(HostFault, match="'a b' is not a module"):
        Session(host="local", python_modules=["a b"])


def test_our_own_applications_and_aggregates_for_tests_are_allowed() -> None:
    assert callable(load("headrace.applications.nfmi.formats:transport"))
    assert callable(load("headrace.testing.windows:SumOfSquares"))
    with pytest.raises(NameFault):
        load("headrace.errors:HostFault")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["read", "getoutput"])
def test_a_program_may_name_the_modules_beside_it(module: Path, name: str) -> None:
    statement = FORMAT.format(folder=module, target=f"police_notes:{name}")
    (module / "program.py").write_text(
        f"from headrace import Session\nwith Session(host='local') as session:\n    session.execute({statement!r})\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    ran = subprocess.run([sys.executable, module / "program.py"], env=environment, capture_output=True, text=True)
    assert (ran.returncode == 0) == (name == "read"), ran.stderr


def test_a_checkpoint_from_elsewhere_runs_no_code_that_is_not_allowed_here(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "police_notes")
        with Session(module / "state", host="local") as session:
            session.execute(
                FORMAT.format(folder=module, target="police_notes:read") + "SELECT x FROM s INTO MEMORY;", start=False
            )
    (module / "police_notes.ran").unlink()
    monkeypatch.delitem(sys.modules, "police_notes")
    sys.modules["headrace.connectors.formats.messages"]._load.cache_clear()
    with (
        Session(module / "state", host="local") as later,
        pytest.raises(NameFault, match="may not use the module police_notes"),
    ):
        later.drain()
    assert not (module / "police_notes.ran").exists()


def test_a_worker_allows_what_the_driver_allows(module: Path) -> None:
    options = {"directory": str(module), "buckets": "[0]", "parallel": "1", "limit": "1", "page": "1", "storage": "{}"}
    reader = HeadraceReader({**options, "python": f'{{"modules": ["json"], "folders": ["{module}"]}}'})
    assert not allowed().allows("json")
    assert reader.intake is not None
    assert allowed().allows("json")
    assert allowed().allows("police_notes")
    assert not allowed().allows("subprocess")
