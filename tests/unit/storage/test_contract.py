"""What every storage does, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.objects.imitation import BUCKET, Proxy, imitation, reason_to_skip, s3_environment
from tests.objects.others import PROGRAMS, URLS, other_imitation, why_not

from headrace.storage.disk import LocalDisk
from headrace.storage.location import location
from headrace.storage.objects import TRIES, ObjectStorage
from headrace.storage.storage import Storage
from headrace.testing.deployment.disk import SimulatedDisk


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """An imitation of S3."""
    pytest.importorskip("obstore", reason="the client of object stores is not installed: tests/objects/setup")
    if why := reason_to_skip():
        pytest.skip(why)
    with imitation() as running:
        yield running


@pytest.fixture(scope="module")
def azure() -> Iterator[Mapping[str, str]]:
    """An imitation of Azure's blob storage."""
    with other_imitation("azure") as environ:
        yield environ


@pytest.fixture(scope="module")
def gs() -> Iterator[Mapping[str, str]]:
    """An imitation of Google's cloud storage."""
    with other_imitation("gs") as environ:
        yield environ


OTHERS = [pytest.param(kind, marks=pytest.mark.objects) for kind in PROGRAMS if why_not(kind) is None]


@pytest.fixture(params=["local", "simulated", pytest.param("s3", marks=pytest.mark.objects), *OTHERS])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Storage, Path]]:
    """A storage and an empty directory in it."""
    if request.param in ("local", "simulated"):
        yield (LocalDisk() if request.param == "local" else SimulatedDisk()), tmp_path / "deep" / "directory"
        return
    if request.param in PROGRAMS:
        for name, value in request.getfixturevalue(request.param).items():
            monkeypatch.setenv(name, value)
        yield ObjectStorage(), location(f"{URLS[request.param]}/{tmp_path.name}/deep/directory")
        return
    running: Proxy = request.getfixturevalue("proxy")
    for name, value in s3_environment(running).items():
        monkeypatch.setenv(name, value)
    yield ObjectStorage(pause=lambda seconds: None), location(f"s3://{BUCKET}/{tmp_path.name}/deep/directory")
    running.heal()


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


def test_a_listing_of_many_names_is_complete(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    expected = [f"{number:08d}" for number in range(120)]
    for name in expected:
        storage.replace(directory / name, lambda file: file.write(b""), durable=False)
    assert storage.names(directory) == expected


def test_appended_bytes_follow_each_other(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    path, expected = directory / "a", b""
    with pytest.raises(FileNotFoundError):
        storage.read_appended(path)
    for number in range(150):
        storage.append(path, b"%d;" % number, keep=len(expected))
        expected += b"%d;" % number
    assert storage.read_appended(path) == expected
    assert storage.read_appended(path, 77) == expected[77:]
    assert storage.read_appended(path, len(expected)) == b""
    assert storage.names(directory) == ["a"]
    storage.append(path, b"cut", keep=10)
    assert storage.read_appended(path) == expected[:10] + b"cut"
    storage.replace_appended(path, b"whole")
    assert storage.read_appended(path) == b"whole"
    storage.append(path, b" more")
    assert storage.read_appended(path, 5) == b" more"


def test_a_large_file_is_written_and_read_whole(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    data = bytes(range(256)) * (13 << 12)
    put(storage, directory / "a", data)
    assert storage.read(directory / "a") == data


def test_names_keep_their_characters(place: tuple[Storage, Path]) -> None:
    storage, directory = place
    names = ["%41b", "a b", "a=b", "a+b", "part-000.parquet", "é"]
    for name in names:
        put(storage, directory / name, name.encode())
    assert storage.names(directory) == sorted(names)
    assert [storage.read(directory / name) for name in names] == [name.encode() for name in names]


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


@pytest.mark.parametrize(
    "place", ["local", pytest.param("s3", marks=pytest.mark.objects), *OTHERS], indirect=True
)  # a simulated disk belongs to one thread
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


@pytest.mark.objects
@pytest.mark.parametrize("place", ["s3"], indirect=True)
@pytest.mark.parametrize("fault", ["lose_request_every", "lose_answer_every", "refuse_every"])
def test_faults_that_pass_do_not_show(place: tuple[Storage, Path], proxy: Proxy, fault: str) -> None:
    setattr(proxy, fault, 3)
    check_that_faults_do_not_show(*place)


def check_that_faults_do_not_show(storage: Storage, directory: Path, *, rounds: int = 12) -> None:
    content: dict[str, bytes] = {}
    for number in range(rounds):
        path, data = directory / str(number), b"%d" % number
        assert storage.create(path, data)
        assert not storage.create(path, b"another")
        known = storage.read_tagged(path)
        assert known is not None
        tag = storage.swap(path, data + b" swapped", known[1])
        assert tag is not None
        assert storage.swap(path, data + b" too late", known[1]) is None
        storage.move([(path, directory / f"moved {number}")])
        storage.append(directory / "log", data, keep=sum(map(len, content.values())))
        content[f"moved {number}"] = data
    assert storage.names(directory) == sorted(["log", *content])
    assert storage.read_appended(directory / "log") == b"".join(content.values())
    assert all(storage.read(directory / name) == data + b" swapped" for name, data in content.items())
    assert isinstance(storage, ObjectStorage)
    (requests,) = storage.counted.values()
    assert 0 < requests.repeated < requests.made
    assert requests.failed == 0
    assert storage.take_counted() == storage.counted
    assert storage.take_counted() == {}


@pytest.mark.objects
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_store_that_never_answers_is_a_fault_after_a_number_of_tries(
    place: tuple[Storage, Path], proxy: Proxy
) -> None:
    storage, directory = place
    proxy.refuse_every = 1
    with pytest.raises(OSError, match=f"does not answer after {TRIES} tries .503 SlowDown.") as raised:
        storage.read(directory / "a")
    assert raised.value.filename == f"{directory}/a"
    assert not isinstance(raised.value, FileNotFoundError)


@pytest.mark.objects
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_missing_bucket_is_not_an_empty_directory(place: tuple[Storage, Path]) -> None:
    storage, _ = place
    for act in (storage.read, storage.names, lambda path: put(storage, path, b"")):
        with pytest.raises(OSError, match="there is no bucket nowhere") as raised:
            act(location("s3://nowhere/a"))
        assert not isinstance(raised.value, FileNotFoundError)
