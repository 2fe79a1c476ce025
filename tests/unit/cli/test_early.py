"""What `headrace run` may start before it has read its arguments properly."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.cli import early, java
from headrace.hosts.spark.starting import context, jvm
from headrace.hosts.spark.starting.settings import JAVA_OPTIONS


@pytest.mark.parametrize(
    ("arguments", "is_plain"),
    [
        ("run {script}", True),
        ("run {script} --once --stats --no-restart --buckets 3 --fail-on bad=0 --allow-python means", True),
        ("run --checkpoint={new} {script}", True),
        ("run --checkpoint {new} {script}", True),
        ("run --checkpoint {old} {script}", False),
        ("run --checkpoint s3://bucket/state {script}", False),
        ("run {script} --host local", False),
        ("run {script} --master local[4]", False),
        ("run {script} --conf a=b", False),
        ("run {script} --take-over", False),
        ("run {script} --debug", False),
        ("run {script} --help", False),
        ("run", False),
        ("run {new}", False),
        ("run {script} {script}", False),
        ("explain {script}", False),
        ("", False),
    ],
)
def test_only_a_plain_run_starts_early(arguments: str, is_plain: bool, tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("")
    typed = arguments.format(script=script, new=tmp_path / "new", old=tmp_path).split()
    assert early.script_of(typed) == (script if is_plain else None)


def test_another_program_starts_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("")
    begun: list[object] = []
    monkeypatch.setattr(context, "begin", lambda before, *, is_short: begun.append((before, is_short)))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    early.begin("/usr/bin/pytest", ["run", str(script)])
    assert not begun
    early.begin("/usr/bin/headrace", ["run", str(script)])
    early.begin("/usr/bin/headrace", ["run", str(script), "--once"])
    assert begun == [(java.prepare, False), (java.prepare, True)]
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(tmp_path), "elsewhere"])
    assert early.share_folder(script) == str(tmp_path)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(tmp_path), "elsewhere"]), "it is there once"


def test_the_log_of_an_early_jvm_moves_into_a_new_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launched, prepared = threading.Event(), list[str]()

    def launch(conf: object, outputs: dict[str, int]) -> str:
        os.write(outputs["stderr"], b"hello\n")
        launched.set()
        return "gateway"

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    monkeypatch.setattr(jvm, "_log", None)
    monkeypatch.setattr(jvm, "_is_temporary", False)
    beginning = jvm._Beginning(None, lambda: None, prepared.append, jvm._open(None))  # type: ignore[arg-type]
    assert beginning.wait() == "gateway"
    assert prepared == ["gateway"]
    assert launched.is_set()
    jvm._keep_log(tmp_path)
    assert (tmp_path / "spark.log").read_text() == "hello\n"
    assert jvm._log == tmp_path / "spark.log"


def test_a_jvm_that_does_not_start_early_is_tried_again() -> None:
    def missing() -> None:
        raise OSError("no Java")

    read, write = os.pipe()
    assert jvm._Beginning(None, missing, lambda gateway: None, write).wait() is None  # type: ignore[arg-type]
    os.close(read)


@pytest.mark.parametrize(
    ("is_short", "given", "expected"),
    [
        (False, "", '-Xshare:auto "-Djava.io.tmpdir=/a b"'),
        (True, "", '-Xshare:auto "-Djava.io.tmpdir=/a b" -XX:TieredStopAtLevel=1'),
        (True, "-Dours=1", None),  # which Spark reads itself
    ],
)
def test_the_jvm_of_a_job_with_an_end_compiles_each_method_once(
    monkeypatch: pytest.MonkeyPatch, is_short: bool, given: str, expected: str | None
) -> None:
    begun: list[str | None] = []
    monkeypatch.setattr(context, "_given", lambda launch: {JAVA_OPTIONS: given} if given else {})
    monkeypatch.setattr(context, "_quick_start", lambda _: "-Xshare:auto")
    monkeypatch.setattr(context, "private_folder", lambda: "/a b")
    monkeypatch.setattr(context, "begin_jvm", lambda conf, before, after: begun.append(conf.get(JAVA_OPTIONS, None)))
    context.begin(lambda: None, is_short=is_short)
    assert begun == [expected]


@pytest.mark.parametrize(
    ("memory", "is_large"),
    [(None, True), ("1g", True), ("1024", True), ("2048MB", True), ("512m", False), ("900000k", False), ("?", False)],
)
def test_the_heap_of_a_jvm_has_regions_in_which_pages_and_chunks_have_room_unless_it_is_small(
    monkeypatch: pytest.MonkeyPatch, memory: str | None, is_large: bool
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(context, "_given", lambda launch: {"spark.driver.memory": memory} if memory else {})
    monkeypatch.setattr(context, "begin_jvm", lambda conf, before, after: begun.append(conf.get(JAVA_OPTIONS)))
    context.begin(lambda: None, is_short=False)
    (options,) = begun
    assert ("-XX:G1HeapRegionSize=8m" in options.split()) == is_large


@pytest.mark.slow
def test_a_command_does_not_import_what_only_others_need() -> None:
    code = "import sys, headrace.cli.main; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "headrace.cli.run" in found
    rare = ("prompt_toolkit", "pandas", "matplotlib", "headrace.experiments.table", "headrace.applications.table")
    assert [name for name in rare if name in found] == []
