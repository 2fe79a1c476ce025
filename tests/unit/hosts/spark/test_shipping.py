"""Python modules beside a script, as they travel to executors."""

import subprocess
import sys
import uuid
from typing import Any

import pytest

from headrace.hosts.spark.starting import shipping
from headrace.model.allowed_python import Allowed


class Context:
    """A Spark context that keeps the files which it is given, and refuses a name that it has."""

    def __init__(self):
        self.files = {}
        self.applicationId = f"app-{uuid.uuid4()}"

    def addPyFile(self, path):
        name = path.rpartition("/")[2]
        assert name not in self.files, f"{name} was already registered with a different path"
        with open(path, "rb") as file:
            self.files[name] = file.read()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "code" / "parts" / "inner").mkdir(parents=True)
    (tmp_path / "code" / "data").mkdir()
    (tmp_path / "code" / "means.py").write_text("import parts.inner.deep\nvalue = parts.inner.deep.value\n")
    for name in ("parts/__init__.py", "parts/inner/__init__.py", "data/notes.py", "not-a-module.py", "script.sql"):
        (tmp_path / "code" / name).write_text("")
    (tmp_path / "code" / "parts" / "inner" / "deep.py").write_text("value = 7\n")
    return tmp_path / "code"


def test_modules_beside_the_script_can_be_imported_and_named_on_executors(folder, tmp_path):
    context: Any = Context()
    python = shipping.ship_modules(context, Allowed(("stats",), (str(folder),)))
    ((name, data),) = context.files.items()
    (tmp_path / name).write_bytes(data)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / name)!r}); import means; print(means.value)"
    assert subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True).stdout == "7\n"
    assert python.modules == ("stats", "means", "parts", "means.*", "parts.*")


def test_the_same_modules_are_the_same_archive(folder):
    first: Any = Context()
    second: Any = Context()
    for context in (first, second, second):
        shipping.ship_modules(context, Allowed((), (str(folder),)))
    assert first.files == second.files
    (folder / "means.py").write_text("value = 8\n")
    shipping.ship_modules(second, Allowed((), (str(folder),)))
    assert len(second.files) == 2


def test_nothing_is_sent_if_there_is_nothing_or_too_much(folder, tmp_path, monkeypatch, caplog):
    context: Any = Context()
    empty = Allowed((), (str(tmp_path / "missing"),))
    assert shipping.ship_modules(context, empty) == empty
    monkeypatch.setattr(shipping, "FILES", 2)
    many = Allowed((), (str(folder),))
    assert shipping.ship_modules(context, many) == many
    assert "too many to send to the executors" in caplog.text
    assert context.files == {}
