"""Copies of small files of a checkpoint in a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.storage.location import ObjectPath, location
from headrace.storage.mirror import Mirror
from headrace.storage.storage import Write
from headrace.testing.deployment.disk import SimulatedDisk


class Counting(SimulatedDisk):
    """A store that counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, path: Path, start: int = 0) -> bytes:
        self.reads.append(path.name)
        return super().read(path, start)


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def checkpoint() -> ObjectPath:
    place = location("s3://lake/state")
    assert isinstance(place, ObjectPath)
    return place


def text(data: bytes) -> Write:
    return lambda file: file.write(data)


def test_what_is_written_or_was_read_is_not_asked_for_again(
    store: Counting, checkpoint: ObjectPath, tmp_path: Path
) -> None:
    store.replace(checkpoint / "old.json", text(b"old"))
    owner = Mirror(checkpoint, tmp_path, store)
    owner.replace(checkpoint / "progress.json", text(b"1"))
    for _ in range(3):
        assert owner.read(checkpoint / "progress.json") == b"1"
        assert owner.read(checkpoint / "old.json", 1) == b"ld"
        assert not owner.exists(checkpoint / "commands" / "00000000.json")
    assert store.reads == ["old.json", "00000000.json"]
    assert store.read(checkpoint / "progress.json") == b"1"


def test_another_process_sees_what_the_owner_writes(store: Counting, checkpoint: ObjectPath, tmp_path: Path) -> None:
    owner, planner = (Mirror(checkpoint, tmp_path, store) for _ in range(2))
    command = checkpoint / "commands" / "00000000.json"
    assert not planner.exists(command)
    owner.replace(command, text(b"command"))
    assert planner.read(command) == b"command"
    owner.replace(command, text(b"changed"))
    assert planner.read(command) == b"changed"
    owner.remove([command])
    assert not planner.exists(command)
    assert not store.exists(command)


def test_a_copy_that_came_while_the_store_was_read_is_kept(
    store: Counting, checkpoint: ObjectPath, tmp_path: Path
) -> None:
    path = checkpoint / "progress.json"
    store.replace(path, text(b"1"))
    owner = Mirror(checkpoint, tmp_path, store)

    class Slow(Counting):
        """The owner writes while an answer is under way."""

        def read(self, path: Path, start: int = 0) -> bytes:
            data = store.read(path, start)
            owner.replace(path, text(b"2"))
            return data

    planner = Mirror(checkpoint, tmp_path, Slow())
    assert planner.read(path) == b"2"
    assert planner.read(path) == owner.read(path) == b"2"


def test_what_is_swapped_is_seen_and_need_not_be_read_again(
    store: Counting, checkpoint: ObjectPath, tmp_path: Path
) -> None:
    owner, planner = (Mirror(checkpoint, tmp_path, store) for _ in range(2))
    path = checkpoint / "progress.json"
    assert owner.create(path, b"0")
    for number in range(3):
        assert planner.read(path) == b"%d" % number
        known = owner.read_tagged(path)
        assert known is not None
        assert owner.swap(path, b"%d" % (number + 1), known[1])
    assert store.reads == []
    store.replace(path, text(b"by another machine"))
    known = owner.read_tagged(path)
    assert known is not None
    assert owner.swap(path, b"4", known[1]) is None
    assert owner.read_tagged(path) == store.read_tagged(path)


def test_the_epoch_of_the_owner_has_no_copy(store: Counting, checkpoint: ObjectPath, tmp_path: Path) -> None:
    owner = Mirror(checkpoint, tmp_path, store)
    owner.replace(checkpoint / "epoch.json", text(b"1"))
    store.replace(checkpoint / "epoch.json", text(b"2"))
    assert owner.read(checkpoint / "epoch.json") == b"2"


def test_large_files_have_no_copies(store: Counting, checkpoint: ObjectPath, tmp_path: Path) -> None:
    owner = Mirror(checkpoint, tmp_path, store)
    for path in (checkpoint / "sources" / "s" / "000000000000-1.arrow", checkpoint / "local.msgpack"):
        owner.replace(path, text(b"rows"))
        assert owner.read(path) == b"rows"
    assert not any(tmp_path.iterdir())
