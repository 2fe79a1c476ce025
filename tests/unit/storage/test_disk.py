import os
from pathlib import Path
from typing import Any

import pytest

from headrace.storage import files


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the operating system is asked to do, in order: the call and the name of the file it is about."""
    seen: list[tuple[str, str]] = []
    fsync, replace, unlink = os.fsync, os.replace, os.unlink

    def name_of(handle: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{handle}")).name

    def noted_fsync(handle: int) -> None:
        seen.append(("fsync", name_of(handle)))
        fsync(handle)

    def noted_replace(source: Any, destination: Any) -> None:
        seen.append(("rename", Path(destination).name))
        replace(source, destination)

    def noted_unlink(path: Any) -> None:
        unlink(path)
        seen.append(("unlink", Path(path).name))

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    monkeypatch.setattr(os, "unlink", noted_unlink)
    return seen


def test_a_replaced_file_is_on_disk_before_its_name_and_its_name_before_the_return(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    files.replace(tmp_path / "a", b"new")
    hidden = f".a.{os.getpid()}.tmp"
    assert calls == [("fsync", hidden), ("rename", "a"), ("fsync", tmp_path.name)]
    assert files.read(tmp_path / "a") == b"new"


def test_a_file_that_need_not_last_is_not_forced_to_disk(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    files.replace(tmp_path / "a", b"new", durable=False)
    files.remove(tmp_path / "a", durable=False)
    assert calls == [("rename", "a"), ("unlink", "a")]


def test_directories_are_made_and_their_names_forced_to_disk(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    files.replace(tmp_path / "deep" / "deeper" / "a", b"")
    assert [what for what in calls if what[0] == "fsync"] == [
        ("fsync", tmp_path.name),
        ("fsync", "deep"),
        ("fsync", f".a.{os.getpid()}.tmp"),
        ("fsync", "deeper"),
    ]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def fail(file: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    files.replace(tmp_path / "a", b"old")
    with pytest.raises(OSError, match="disk full"):
        files.replace_by(tmp_path / "a", fail)
    assert files.read(tmp_path / "a") == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_appending_forces_the_bytes_and_once_the_name(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    files.append(tmp_path / "log", b"one")
    files.append(tmp_path / "log", b"two")
    assert calls == [("fsync", "log"), ("fsync", tmp_path.name), ("fsync", "log")]
    assert files.read(tmp_path / "log", start=3) == b"two"


def test_appending_cuts_off_what_a_crash_left(tmp_path: Path) -> None:
    files.append(tmp_path / "log", b"one torn")
    files.append(tmp_path / "log", b" two", keep=3)
    assert files.read(tmp_path / "log") == b"one two"


def test_files_are_moved_in_order_and_their_directory_forced_once(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    staged = [tmp_path / "_staging" / name for name in ("x", "y")]
    for path in staged:
        files.replace(path, path.name.encode(), durable=False)
    calls.clear()
    files.move([(path, tmp_path / f"part-{path.name}") for path in staged])
    assert calls == [("rename", "part-x"), ("rename", "part-y"), ("fsync", tmp_path.name)]
    with pytest.raises(FileNotFoundError):
        files.move([(staged[0], tmp_path / "part-z")])


def test_what_is_removed_durably_does_not_come_back(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    files.remove(tmp_path / "absent")
    assert calls == []
    files.replace(tmp_path / "a", b"", durable=False)
    files.remove(tmp_path / "a", tmp_path / "absent")
    assert calls[-2:] == [("unlink", "a"), ("fsync", tmp_path.name)]


def test_names_are_those_of_complete_files(tmp_path: Path) -> None:
    assert files.names(tmp_path / "absent") == []
    for name in ("b", "a", ".a.1.tmp"):
        (tmp_path / name).touch()
    assert files.names(tmp_path) == ["a", "b"]
    assert files.read_if_exists(tmp_path / "c") is None


def test_there_is_nothing_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert files.read_if_exists(tmp_path / "a" / "b") is None
    assert files.names(tmp_path / "a" / "b") == []
    with pytest.raises(NotADirectoryError):
        files.replace(tmp_path / "a" / "b", b"")


def test_what_a_crash_left_of_a_write_is_swept(tmp_path: Path) -> None:
    for name in (".a.123.tmp", ".note", "b.1.tmp", "c"):
        (tmp_path / name).touch()
    files.sweep(tmp_path)
    files.sweep(tmp_path / "absent")
    assert sorted(os.listdir(tmp_path)) == [".note", "b.1.tmp", "c"]


def test_a_whole_directory_can_be_forced_to_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    files.force(tmp_path)
    files.force(tmp_path / "absent")
    assert files.exists(tmp_path / "a")
