"""A start of Spark: from an installation without sources to compile, with the classes that an earlier JVM has kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.hosts.spark.starting.installation import (
    CLAIM_SECONDS,
    KEPT,
    MAGIC,
    cache_folder,
    class_options,
    spark_home,
)


@pytest.fixture
def environ(tmp_path):
    """The environment of a Java that has an archive of its own classes."""
    for name in ("bin/java", "lib/server/classes.jsa"):
        (tmp_path / "java" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "java" / name).write_text("#!/bin/sh\n")
        (tmp_path / "java" / name).chmod(0o755)
    return {"JAVA_HOME": str(tmp_path / "java"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def folder(environ):
    return cache_folder(environ)


@pytest.fixture
def home(folder):
    made = spark_home(folder)
    assert made is not None
    return made


def file_of(options: str) -> Path:
    return Path(options.split('"')[1].split("=", 1)[1])


def test_the_home_has_the_programs_and_jars_of_spark_but_not_its_python_sources(home, folder):
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()
    assert spark_home(folder) == home


def test_the_first_jvm_writes_the_classes_and_later_ones_map_them(environ, folder, home):
    first = class_options(home, folder, environ)
    assert "-XX:ArchiveClassesAtExit=" in first
    file_of(first).write_bytes(MAGIC + b"classes")
    later = class_options(home, folder, environ)
    assert "-XX:SharedArchiveFile=" in later
    assert file_of(later).read_bytes() == MAGIC + b"classes"
    assert class_options(home, folder, environ) == later


def test_while_one_jvm_is_to_write_others_do_not(environ, folder, home):
    first = class_options(home, folder, environ)
    assert class_options(home, folder, environ) == ""
    (claim,) = folder.glob("*.claim")
    past = claim.stat().st_mtime - CLAIM_SECONDS - 1
    os.utime(claim, (past, past))
    assert class_options(home, folder, environ) == first


def test_an_archive_that_was_not_finished_is_not_used(environ, folder, home):
    first = file_of(class_options(home, folder, environ))
    first.write_bytes(bytes(len(MAGIC)) + b"half")
    assert class_options(home, folder, environ) == ""
    past = first.stat().st_mtime - CLAIM_SECONDS - 1
    os.utime(first, (past, past))
    class_options(home, folder, environ)
    assert not first.exists()


@pytest.mark.parametrize("answer", ["kill -BUS $$", "echo Checksum verification failed."])
def test_an_archive_that_java_does_not_accept_is_removed(environ, folder, home, answer):
    (Path(environ["JAVA_HOME"]) / "bin" / "java").write_text(f"#!/bin/sh\n{answer}\n")
    first = file_of(class_options(home, folder, environ))
    first.write_bytes(MAGIC + b"damaged")
    assert class_options(home, folder, environ) == ""
    assert not first.exists()


def test_another_java_has_its_own_archive_and_old_archives_are_removed(environ, folder, home):
    java = Path(environ["JAVA_HOME"]) / "bin" / "java"
    for version in range(KEPT + 3):
        java.write_text("#!/bin/sh\n" + "\n" * version)
        file_of(class_options(home, folder, environ)).write_bytes(MAGIC)
        archive = file_of(class_options(home, folder, environ))
        os.utime(archive, (version, version))
    assert len(list(folder.glob("classes-*.jsa"))) == KEPT + 1
    assert archive.exists()


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR"])
def test_a_folder_on_the_class_path_or_a_java_without_an_archive_leaves_java_as_it_is(environ, folder, home, name):
    assert class_options(home, folder, {**environ, name: "/etc/spark"}) == ""
    (Path(environ["JAVA_HOME"]) / "lib" / "server" / "classes.jsa").unlink()
    assert class_options(home, folder, environ) == ""


def test_a_folder_that_cannot_be_written_is_no_fault(environ, home, tmp_path):
    (tmp_path / "file").touch()
    assert spark_home(tmp_path / "file" / "headrace") is None
    assert class_options(home, tmp_path / "file" / "headrace", environ) == ""


def test_processes_that_only_make_the_source_import_nothing_else_of_ours():
    code = """
import sys
from headrace.hosts.spark.source import HeadraceSource
options = {"directory": "d", "buckets": "[0]", "page": "1", "parallel": "1", "limit": "1", "python": "{}"}
options.update(storage="{}", copies="")
HeadraceSource(options).streamReader(None)
print(*sorted(name for name in sys.modules if name.startswith("headrace.") or name in ("polars", "pyarrow")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["headrace.hosts", "headrace.hosts.spark", "headrace.hosts.spark.source"]


def test_the_cache_folder_is_for_this_user_alone(folder, environ):
    folder.mkdir(parents=True, mode=0o777)
    folder.chmod(0o777)
    home = spark_home(folder)
    assert home is not None
    assert folder.stat().st_mode & 0o077 == 0
    assert class_options(home, folder, environ)


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_cache_folder_that_is_a_link_is_not_used(folder, environ, home, tmp_path, is_dangling):
    other = tmp_path / "elsewhere"
    folder.rename(tmp_path / "before")
    if not is_dangling:
        other.mkdir()
    folder.symlink_to(other)
    assert spark_home(folder) is None
    assert class_options(tmp_path / "before" / home.name, folder, environ) == ""
    assert not is_dangling or not other.exists()


def test_a_cache_folder_of_another_user_is_not_used(folder, environ, home, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert spark_home(folder) is None
    assert class_options(home, folder, environ) == ""
