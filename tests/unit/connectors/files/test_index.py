"""A directory that has not changed is not listed again, unless one cannot be sure of that."""

import os
from pathlib import Path

import pytest

from headrace.connectors.files.index import BELIEVED, RACY, FileIndex
from headrace.errors import SourceFault

CHANGED = 1_800_000_000 * 10**9


class Folder:
    """A watched directory whose time of change is ours to set, and an index that looks at it when we say so."""

    def __init__(self, root: Path) -> None:
        self.now = CHANGED
        self.path = root / "in"
        self.path.mkdir()
        self.index = FileIndex(root / "files.jsonl", str(self.path), "*.json", clock=lambda: self.now)

    def add(self, name: str, changed: int) -> None:
        """A file appears, and the directory claims to have changed then."""
        (self.path / name).write_text("{}\n")
        os.utime(self.path, ns=(changed, changed))

    def found(self, later: int) -> int:
        """How many files are known after a look so long after CHANGED."""
        self.now = CHANGED + later
        self.index.refresh()
        return len(self.index)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
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


def test_a_directory_that_is_gone_is_told(folder: Folder) -> None:
    assert folder.found(RACY) == 1
    (folder.path / "a.json").unlink()
    folder.path.rmdir()
    with pytest.raises(SourceFault, match="no file or directory"):
        folder.found(RACY + 1)
