"""The archive that executors get: complete, the same for the same packages, and without what Spark has."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

from headrace.hosts.spark.starting import context, packing
from headrace.hosts.spark.starting.launch import GATEWAY

IMPORT = (
    "import headrace.hosts.spark.processor, headrace.worker.bucket, headrace.cli.main as main; print(main.__file__)"
)


def test_the_archive_has_our_package_and_what_it_needs_but_nothing_that_spark_brings():
    names = [name for name, _ in packing.contents()]
    folders = {name.partition("/")[0] for name in names}
    assert {"headrace", "polars", "pyarrow", "msgspec", "numpy", "pandas", "sqlglot", "google"} <= folders
    assert not {"pyspark", "py4j", "hypothesis", "pytest"} & folders
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name or name.startswith("..")]
    assert len(names) == len(set(names))


def test_the_same_packages_are_the_same_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = tmp_path / "module.py"
    module.write_text("value = 1\n")
    monkeypatch.setattr(packing, "contents", lambda: iter([("headrace/module.py", module)]))
    first = packing.packed(tmp_path / "cache")
    data = first.read_bytes()
    with tarfile.open(first) as archive:
        assert archive.getnames() == ["bin/python", "packages/headrace/module.py"]
        assert archive.getmember("bin/python").mode == 0o755
    assert packing.packed(tmp_path / "cache") == first
    first.unlink()
    assert packing.packed(tmp_path / "cache").read_bytes() == data
    module.write_text("value = 22\n")
    second = packing.packed(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == [second], "archives of earlier packages are of no use"


def test_a_machine_without_the_right_python_says_so(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    starter = tmp_path / "bin" / "python"
    starter.write_text(packing.starter("9.9"))
    starter.chmod(0o755)
    done = subprocess.run([str(starter), "-c", ""], capture_output=True, text=True)
    assert done.returncode == 127
    assert done.stderr.startswith("there is no Python 9.9 on ")


@pytest.mark.slow
def test_an_unpacked_archive_and_the_sources_of_spark_are_all_that_a_machine_needs(tmp_path: Path):
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    starter = tmp_path / "environment" / "bin" / "python"
    starter.write_text(packing.starter())
    starter.chmod(0o755)
    for name, file in packing.contents():  # links: to pack half a gigabyte takes long
        link = tmp_path / "environment" / "packages" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    zips = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, zips)),
        "HEADRACE_EXECUTOR_PYTHON": f"{sys.base_prefix}/bin/python3",
    }
    done = subprocess.run(
        [starter, "-s", "-c", IMPORT],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.startswith(str(tmp_path / "environment" / "packages"))


def test_the_driver_has_a_python_at_the_path_that_is_relative_on_executors(tmp_path, monkeypatch):
    monkeypatch.delenv(GATEWAY, raising=False)
    monkeypatch.chdir(tmp_path)
    with context._beside_python(packing.PYTHON):
        elsewhere = os.getcwd()
        shown = subprocess.run(
            [packing.PYTHON, "-c", "import os, sys; print(os.getcwd(), sys.prefix)"], capture_output=True, text=True
        )
    assert os.getcwd() == str(tmp_path) != elsewhere
    assert shown.stdout.split() == [str(tmp_path), sys.prefix], "relative paths mean the same as in the driver"
