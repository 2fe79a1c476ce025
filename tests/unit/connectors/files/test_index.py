"""A directory that has not changed is not listed again; files that were read and are gone are forgotten."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.files import index
from headrace.connectors.files.index import BELIEVED, FOLD_INTERVAL, FOLDED, NAMELESS, RACY, FileIndex, named
from headrace.errors import SourceFault

CHANGED = 1_800_000_000 * 10**9


class Folder:
    """A watched directory whose time of change is ours to set, and an index that looks at it when we say so."""

    def __init__(self, root: Path, *, by_glob: bool = False) -> None:
        self.now = CHANGED
        self.path = root / "in"
        self.path.mkdir()
        path = self.path / "?.json" if by_glob else self.path
        self.index = FileIndex(root / "files.jsonl", str(path), "*.json", clock=lambda: self.now)

    def add(self, name: str, changed: int) -> None:
        """A file appears, and the directory claims to have changed then."""
        (self.path / name).write_text("{}\n")
        os.utime(self.path, ns=(changed, changed))

    def found(self, later: int) -> int:
        """How many files are known after a look so long after CHANGED."""
        self.now = CHANGED + later
        self.index.refresh()
        return len(self.index)


@pytest.fixture(params=["folder", "glob"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    made = Folder(tmp_path, by_glob=request.param == "glob")
    made.add("a.json", CHANGED)
    return made


def test_an_unchanged_directory_is_believed_for_a_while_only(folder: Folder) -> None:
    assert folder.found(RACY) == 1
    folder.add("b.json", CHANGED)  # no file system does this so late; it shows that nothing was listed
    assert folder.found(RACY + 1) == 1
    assert folder.found(RACY + BELIEVED) == 2


def test_a_changed_directory_is_listed_at_once(folder: Folder) -> None:
    assert folder.found(RACY) == 1
    folder.add("b.json", CHANGED + RACY)
    assert folder.found(RACY + 1) == 2


def test_a_file_that_comes_in_the_same_moment_as_a_listing_is_found_by_the_next(folder: Folder) -> None:
    assert folder.found(RACY - 1) == 1
    folder.add("b.json", CHANGED)
    assert folder.found(RACY) == 2


def test_a_file_that_a_listing_missed_comes_before_later_ones_that_it_showed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder.found(RACY - 1) == 1
    for second, name in enumerate(("b", "c", "d", "e"), start=1):
        folder.add(f"{name}.json", CHANGED + RACY)
        os.utime(folder.path / f"{name}.json", ns=(CHANGED + second, CHANGED + second))
    shown = [["a", "d"], ["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e"]]

    def list_some(path: str, pattern: str) -> tuple[list[str], list[str]]:
        return [str(folder.path / f"{name}.json") for name in shown.pop(0)], [str(folder.path)]

    monkeypatch.setattr(index, "find_files", list_some)
    assert folder.found(RACY) == 4
    assert folder.found(RACY + 1) == 5  # the newest might have come after others that nobody has seen yet
    assert [Path(folder.index[number].path).stem for number in range(5)] == ["a", "b", "c", "d", "e"]


def test_files_are_found_in_the_order_in_which_they_come_whatever_listings_show(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3000):  # a listing then takes several reads of the directory
        (folder / f"{number:05d}.json").touch()
    known = FileIndex(tmp_path / "files.jsonl", str(folder), "*.json")

    def add() -> None:
        for number in range(3000, 3600):
            (folder / f".{number}").write_text("{}\n")
            (folder / f".{number}").rename(folder / f"{number:05d}.json")

    writer = threading.Thread(target=add)
    writer.start()
    while writer.is_alive():
        known.refresh()
    known.refresh()
    names = [Path(known[number].path).stem for number in range(len(known))]
    assert names == sorted(names)
    assert len(names) == 3600


def test_a_directory_in_place_of_another_is_listed(folder: Folder) -> None:
    assert folder.found(RACY) == 1
    folder.path.rename(folder.path.with_name("old"))
    folder.path.mkdir()
    folder.add("b.json", CHANGED)
    assert folder.found(RACY + 1) == 2


def test_a_clock_that_goes_back_is_not_believed(folder: Folder) -> None:
    assert folder.found(RACY + 10) == 1
    folder.add("b.json", CHANGED)
    assert folder.found(RACY) == 2


def test_a_file_whose_name_is_not_utf_8_is_noted_once_and_read_once_it_is_renamed(tmp_path: Path) -> None:
    folder, log = tmp_path / "in", tmp_path / "files.jsonl"
    folder.mkdir()
    os.close(os.open(os.fsencode(folder) + b"/caf\xe9", os.O_CREAT))
    (folder / "caf\\xe9").write_text("x\n")  # what is shown of the other
    for _ in range(2):
        files = FileIndex(log, str(folder), "*")
        files.refresh()
        assert sorted((named(files[n].path), files[n].size) for n in range(len(files))) == [
            (f"{folder}/caf\\xe9", NAMELESS),
            (f"{folder}/caf\\xe9", 2),
        ]
        assert files.bytes_before(2) == 2
    os.rename(os.fsencode(folder) + b"/caf\xe9", folder / "café")
    files.refresh()
    assert files[2].path == str(folder / "café")
    files.fold(3)
    assert len(FileIndex(log, str(folder), "*")) == 3


def test_a_directory_that_cannot_be_listed_is_told_and_a_partition_that_vanishes_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    (tmp_path / "in" / "a").write_text("x\n")
    scan, errors = os.scandir, dict[str, OSError]()

    def scandir(path: str) -> Any:
        if path in errors:
            raise errors[path]
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    files = FileIndex(tmp_path / "list" / "files.jsonl", str(tmp_path / "in"), "*")
    errors[str(tmp_path / "in" / "day=1")] = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    files.refresh()
    assert len(files) == 1
    for place in (tmp_path / "in", tmp_path / "in" / "day=1"):
        errors = {str(place): PermissionError(errno.EACCES, os.strerror(errno.EACCES))}
        with pytest.raises(SourceFault, match=f"{place} cannot be read: Permission denied"):
            FileIndex(tmp_path / "list" / "files.jsonl", str(tmp_path / "in"), "*").refresh()


def test_a_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add("a.json", CHANGED)
    assert folder.found(RACY) == 1
    (folder.path / "a.json").unlink()
    folder.path.rmdir()
    with pytest.raises(SourceFault, match="no file or directory"):
        folder.found(RACY + 1)


class Stream:
    """A directory into which files come and from which they go, and an index that has read all of them."""

    def __init__(self, root: Path) -> None:
        self.log, self.path, self.now = root / "files.jsonl", root / "in", CHANGED
        self.path.mkdir()
        self.made = 0
        self.open()

    def open(self) -> None:
        self.index = FileIndex(self.log, str(self.path), "*", clock=lambda: self.now)

    def add(self, count: int) -> None:
        for _ in range(count):
            (self.path / f"{self.made:05d}.json").write_text("{}\n")
            self.made += 1
        self.now += FOLD_INTERVAL
        self.index.refresh()

    def remove(self, but: int) -> None:
        for name in sorted(os.listdir(self.path))[:-but]:
            (self.path / name).unlink()

    def fold(self) -> bool:
        self.now += FOLD_INTERVAL
        is_foldable = self.index.is_foldable(len(self.index))
        if is_foldable:
            self.index.fold(len(self.index))
        return is_foldable


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def test_the_list_of_files_grows_with_what_is_there_not_with_what_was_read(stream: Stream) -> None:
    sizes = []
    for _ in range(20):
        stream.add(FOLDED)
        stream.remove(but=5)
        assert stream.fold()
        sizes.append(stream.log.stat().st_size)
    assert len(stream.index) == 20 * FOLDED
    assert max(sizes[3:]) < 1.01 * min(sizes[3:]) < 3 * sizes[0]
    assert stream.index.bytes_before(len(stream.index)) == 3 * len(stream.index)


def test_numbers_and_what_is_known_stay_the_same_after_a_restart(stream: Stream) -> None:
    for _ in range(3):
        stream.add(FOLDED)
        stream.remove(but=5)
        stream.fold()
    stream.add(7)
    before = len(stream.index), stream.index[len(stream.index) - 1], stream.index.bytes_before(len(stream.index) - 3)
    stream.open()
    stream.index.refresh()
    assert before == (
        len(stream.index), stream.index[len(stream.index) - 1], stream.index.bytes_before(len(stream.index) - 3)
    )  # fmt: skip
    with pytest.raises(SourceFault, match="file number 3 of"):
        stream.index[3]


def test_files_that_stay_are_not_read_again_and_cost_little(stream: Stream) -> None:
    folds = 0
    for _ in range(20):
        stream.add(FOLDED)
        folds += stream.fold()
    assert folds < 15, "all that is there is written again each time, so less and less often"
    stream.open()
    stream.index.refresh()
    assert len(stream.index) == 20 * FOLDED


def test_a_file_that_is_missing_in_one_listing_and_comes_back_is_not_read_again(stream: Stream) -> None:
    stream.add(FOLDED)
    away = stream.path.with_name("away")
    (stream.path / "00003.json").rename(away)
    assert stream.fold()
    away.rename(stream.path / "00003.json")
    stream.add(FOLDED)
    (stream.path / "00003.json").rename(away)
    assert stream.fold()
    away.rename(stream.path / "00003.json")
    stream.add(1)
    assert len(stream.index) == 2 * FOLDED + 1


def test_an_empty_directory_in_place_of_the_real_one_makes_nothing_forgotten(stream: Stream) -> None:
    stream.add(FOLDED)
    away = stream.path.with_name("away")
    stream.path.rename(away)
    stream.path.mkdir()
    for _ in range(3):
        stream.fold()
    stream.path.rmdir()
    assert not stream.fold() or len(stream.index) == FOLDED
    away.rename(stream.path)
    stream.add(1)
    assert len(stream.index) == FOLDED + 1


def test_a_file_that_grows_is_found_again_after_its_entry_is_gone(tmp_path: Path) -> None:
    path, now = tmp_path / "in", CHANGED
    path.mkdir()
    for number in range(FOLDED):
        (path / f"{number:05d}.json").write_text("{}\n")
    index = FileIndex(tmp_path / "files.jsonl", str(path), "*", mark=b"\n", clock=lambda: now)
    index.refresh()
    now += FOLD_INTERVAL
    assert index.is_foldable(FOLDED)
    index.fold(FOLDED)
    with (path / f"{FOLDED - 1:05d}.json").open("a") as file:
        file.write("{}\n")
    index.refresh()
    assert (index[FOLDED].begin, index[FOLDED].size) == (3, 6)
