import random
from pathlib import Path

import pytest

from headrace.storage import files
from headrace.storage.storage import mounted
from headrace.testing.deployment.disk import Crashed, Image, SimulatedDisk
from headrace.testing.deployment.faults import flipped, killed, power_cuts

A, B = Path("/disk/a"), Path("/disk/b")


def images(disk: SimulatedDisk, count: int = 40) -> list[dict[str, bytes]]:
    return [image.forced for image in power_cuts(disk.image(), count, random.Random(1))]


def contents(disk: SimulatedDisk, path: Path) -> set[bytes | None]:
    return {image.get(str(path)) for image in images(disk)}


def test_what_was_replaced_durably_survives_a_power_cut() -> None:
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.replace(A, b"old")
        files.replace(A, b"new")
        files.replace(B, b"1", durable=False)
        files.remove(A, durable=False)
        files.append(B.with_name("log"), b"one")
    assert contents(disk, A) == {b"new", None}
    assert contents(disk, B) == {b"1", b"", None}
    assert contents(disk, B.with_name("log")) == {b"one"}


def test_a_process_that_dies_leaves_all_that_it_wrote() -> None:
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.replace(A, b"1", durable=False)
        files.remove(A, durable=False)
        files.replace(B, b"2", durable=False)
    assert killed(disk.image()) == Image({str(B): b"2"})


def test_a_power_cut_in_the_middle_of_a_durable_write_leaves_the_old_file_or_the_new_one() -> None:
    taken: list[Image] = []
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.replace(A, b"old")
        disk.note = lambda step: taken.append(disk.image())
        files.replace(A, b"new")
    outcomes = [{image.forced[str(A)] for image in power_cuts(image, 40, random.Random(1))} for image in taken]
    assert outcomes == [{b"old"}, {b"old", b"new"}, {b"new"}]


def test_an_append_is_there_up_to_any_byte_and_what_was_before_it_always() -> None:
    taken: list[Image] = []
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.append(A, b"one.")
        disk.note = lambda step: taken.append(disk.image())
        files.append(A, b"two.")
    cut = {image.forced[str(A)] for image in power_cuts(taken[1], 2000, random.Random(1))}
    assert cut == {b"one." + b"two."[:length] for length in range(5)}


def test_a_rename_happens_as_a_whole() -> None:
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.replace(A, b"1")
        disk.steps_to_live = disk.steps + 1
        with pytest.raises(Crashed):
            files.move([(A, B)])
    assert all(len(image) == 1 for image in images(disk))
    assert contents(disk, A) == {b"1", None}


def test_nothing_counts_after_a_crash() -> None:
    disk = SimulatedDisk()
    disk.steps_to_live = 0
    with mounted(Path("/disk"), disk):
        with pytest.raises(Crashed):
            files.replace(A, b"1")
        with pytest.raises(Crashed):
            files.append(A, b"1")
        assert files.names(Path("/disk")) == []


def test_a_full_disk_refuses_to_write_and_lets_delete() -> None:
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.replace(A, b"1")
        disk.is_full = lambda step: True
        with pytest.raises(OSError, match="No space left"):
            files.replace(B, b"2")
        files.remove(A)
        assert not files.exists(A)


def test_files_that_were_being_written_are_hidden_and_can_be_swept() -> None:
    disk = SimulatedDisk()
    disk.steps_to_live = 1
    with mounted(Path("/disk"), disk), pytest.raises(Crashed):
        files.replace(A, b"1")
    disk = SimulatedDisk(killed(disk.image()))
    with mounted(Path("/disk"), disk):
        assert files.names(Path("/disk")) == []
        assert len(disk.image().seen()) == 1
        files.sweep(Path("/disk"))
    assert disk.image().seen() == {}


def test_a_bit_flips_in_one_file() -> None:
    image = Image({"/disk/a": b"\x00\x00", "/disk/b": b"b"})
    assert flipped(image, "/disk/a", 9).forced == {"/disk/a": b"\x00\x02", "/disk/b": b"b"}


def test_everything_below_a_directory_can_be_forced() -> None:
    disk = SimulatedDisk()
    with mounted(Path("/disk"), disk):
        files.replace(A, b"1", durable=False)
        files.replace(Path("/disk/deep/c"), b"3", durable=False)
        files.force(Path("/disk/deep"))
    assert contents(disk, Path("/disk/deep/c")) == {b"3"}
    assert contents(disk, A) == {b"1", b"", None}
