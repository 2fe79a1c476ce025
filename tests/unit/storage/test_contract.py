"""What every storage does, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.storage.disk import LocalDisk
from headrace.storage.storage import Storage
from headrace.testing.deployment.disk import SimulatedDisk


@pytest.fixture(params=["local", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, Path]:
    """A storage and an empty directory in it."""
    return (LocalDisk() if request.param == "local" else SimulatedDisk()), tmp_path / "deep" / "directory"


def put(storage: Storage, path: Path, data: bytes) -> None:
    storage.replace(path, lambda file: file.write(data))


def test_a_file_is_read_as_it_was_last_written(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    put(storage, directory / "a", b"first")
    put(storage, directory / "a", b"second")
    assert storage.read(directory / "a") == b"second"
    assert storage.read(directory / "a", 3) == b"ond"
    assert storage.exists(directory / "a")


def test_a_missing_file_is_not_found(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    with pytest.raises(FileNotFoundError):
        storage.read(directory / "a")
    assert not storage.exists(directory / "a")
    assert storage.read_tagged(directory / "a") is None
    assert storage.names(directory) == []


def test_names_are_sorted_and_leave_out_hidden_ones(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    for name in ("b", "a", "c/d", ".hidden"):
        put(storage, directory / name, b"x")
    assert storage.names(directory) == ["a", "b", "c"]


def test_a_listing_of_thousands_of_names_is_complete(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    expected = [f"{number:08d}" for number in range(1100)]
    for name in expected:
        storage.replace(directory / name, lambda file: file.write(b""), durable=False)
    assert storage.names(directory) == expected


def test_removing_what_is_missing_does_nothing(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    put(storage, directory / "a", b"x")
    storage.remove([directory / "a", directory / "b"])
    storage.remove([directory / "a"])
    assert storage.names(directory) == []


def test_files_move_in_place_of_others(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    put(storage, directory / "a", b"new")
    put(storage, directory / "b", b"old")
    storage.move([(directory / "a", directory / "b")])
    assert storage.read(directory / "b") == b"new"
    assert not storage.exists(directory / "a")
    with pytest.raises(FileNotFoundError):
        storage.move([(directory / "a", directory / "b")])
    assert storage.read(directory / "b") == b"new"


def test_only_the_first_creates_a_file(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    assert storage.create(directory / "a", b"first")
    assert not storage.create(directory / "a", b"second")
    assert storage.read(directory / "a") == b"first"
    assert storage.names(directory) == ["a"]


def test_a_swap_succeeds_only_on_the_content_that_was_read(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    path = directory / "a"
    assert storage.swap(path, b"none is there", "tag") is None
    assert storage.create(path, b"first")
    known = storage.read_tagged(path)
    assert known is not None
    data, tag = known
    assert data == b"first"
    after = storage.swap(path, b"second", tag)
    assert after is not None
    assert storage.swap(path, b"third", tag) is None
    assert storage.read_tagged(path) == (b"second", after)
    assert storage.swap(path, b"third", after) is not None
    assert storage.read(path) == b"third"


@pytest.mark.parametrize("place", ["local"], indirect=True)  # a simulated disk belongs to one thread
def test_of_several_at_once_one_creates_and_one_swaps(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    path, parties = directory / "a", 4
    put(storage, directory / "beside", b"")

    def race(act: Callable[[int], object]) -> list[int]:
        won: list[int] = []
        barrier = threading.Barrier(parties)

        def run(number: int) -> None:
            barrier.wait()
            if act(number):
                won.append(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return won

    (creator,) = race(lambda number: storage.create(path, b"created by %d" % number))
    assert storage.read(path) == b"created by %d" % creator
    known = storage.read_tagged(path)
    assert known is not None
    (swapper,) = race(lambda number: storage.swap(path, b"swapped by %d" % number, known[1]))
    assert storage.read(path) == b"swapped by %d" % swapper
