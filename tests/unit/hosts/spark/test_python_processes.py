"""What Spark's Python processes find on their path, and what they do not do after each task."""

import gc
import os
import sys
import types
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from headrace.hosts.spark import collecting
from headrace.hosts.spark.collecting import TASKS, collect_less, give_back
from headrace.hosts.spark.python_path import without_zips


@pytest.fixture
def path(tmp_path):
    """A path with zips of PySpark 4.3.0 and py4j, and a folder of packages behind them."""
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/version.py", "__version__: str = '4.3.0'\n")
    (tmp_path / "site").mkdir()
    return ["", str(tmp_path / "pyspark.zip"), str(tmp_path / "py4j-0.10-src.zip"), str(tmp_path / "site")]


def install(folder, version):
    for package in ("pyspark", "py4j"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("")
    (folder / "pyspark" / "version.py").write_text(f"__version__: str = {version!r}\n")


def test_zips_are_left_out_if_the_same_pyspark_is_installed(path, tmp_path):
    install(tmp_path / "site", "4.3.0")
    assert without_zips(path) == ["", str(tmp_path / "site")]


def test_zips_stay_if_another_version_is_installed(path, tmp_path):
    install(tmp_path / "site", "4.2.0")
    assert without_zips(path) == path


def test_zips_stay_if_nothing_is_installed(path):
    assert without_zips(path) == path


def test_a_worker_of_sparks_daemon_collects_seldom_and_not_what_is_imported(monkeypatch):
    daemon: Any = types.ModuleType("__main__")
    daemon.gc = gc
    daemon.__spec__ = ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    collect_less()
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda *_: collected.append(1) or 7)
    monkeypatch.setattr(collecting, "give_back", lambda: collected.append(2))
    frozen = gc.get_freeze_count()
    try:
        assert [daemon.gc.collect() for _ in range(2 * TASKS)] == [*[0] * (TASKS - 1), 7] * 2
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
    assert collected == [1, 2, 1, 2]
    assert daemon.gc.get_count() is not None


def test_memory_that_is_free_between_objects_goes_back_to_the_operating_system():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    parts = [b"x" * size for size in range(60_000, 62_000)]  # small enough for the heap of C
    full = resident()
    del parts[:-1]  # the last one keeps the heap from shrinking by itself
    give_back()
    assert resident() < full - 50_000_000


def test_any_other_program_collects_as_before(monkeypatch):
    program: Any = types.ModuleType("__main__")
    program.gc = gc
    monkeypatch.setitem(sys.modules, "__main__", program)
    collect_less()
    assert program.gc is gc
