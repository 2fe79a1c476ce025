"""One owner of a checkpoint: others are refused or take over, and an owner that was replaced changes nothing."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from headrace.errors import HostFault, OwnerFault
from headrace.storage import files, owner
from headrace.storage.disk import LocalDisk
from headrace.storage.fence import EPOCH_FILE, Claim, Fenced, check_owner, claim_to, is_lost, mount_below, unfenced
from headrace.storage.file_systems import is_of_one_machine, type_of
from headrace.storage.owner import Ownership, epoch_of
from headrace.storage.storage import mount, mounted, storage_of

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /home/my\\040data rw - nfs4 server:/export rw
31 22 0:26 / /scratch rw,nosuid shared:12 - tmpfs tmpfs rw
32 22 0:27 / /shared rw - fuse.sshfs host:/ rw
"""


def replaced(directory: Path, **changes: object) -> None:
    """Let the epoch of a checkpoint be another one."""
    epoch = epoch_of(directory)
    assert epoch is not None
    data = msgspec.json.encode(msgspec.structs.replace(epoch, **changes))
    unfenced(directory).replace(directory / EPOCH_FILE, lambda file: file.write(data))


@pytest.fixture
def on_shared_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "is_of_one_machine", lambda directory: False)


def test_epochs_are_numbered_and_an_owner_that_ends_releases_its_own(tmp_path: Path) -> None:
    for number in (1, 2):
        ownership = Ownership(tmp_path)
        assert ownership.take()
        assert not ownership.take()
        epoch = epoch_of(tmp_path)
        assert epoch is not None
        assert (epoch.number, epoch.owner.pid, epoch.is_released) == (number, os.getpid(), False)
        files.replace(tmp_path / "progress", b"x")
        ownership.release()
        assert claim_to(tmp_path) is None
        epoch = epoch_of(tmp_path)
        assert epoch is not None
        assert epoch.is_released


def test_an_owner_that_was_replaced_changes_nothing_and_does_not_release(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path)
    ownership.take()
    files.replace(tmp_path / "kept", b"before")
    replaced(tmp_path, token="of another", number=2)
    fault = "another process has taken over the checkpoint"
    with pytest.raises(OwnerFault, match=fault):
        ownership.take()
    for change in (
        lambda: files.replace(tmp_path / "kept", b"after"),
        lambda: files.create(tmp_path / "new", b"x"),
        lambda: files.swap(tmp_path / "kept", b"after", files.read_tagged(tmp_path / "kept")[1]),  # type: ignore[index]
        lambda: files.append(tmp_path / "kept", b"more"),
        lambda: files.move([(tmp_path / "kept", tmp_path / "moved")]),
        lambda: files.remove(tmp_path / "kept"),
        lambda: files.sweep(tmp_path),
        lambda: check_owner(tmp_path),
    ):
        with pytest.raises(OwnerFault, match=fault):
            change()
    assert is_lost(tmp_path)
    assert files.read(tmp_path / "kept") == b"before"
    ownership.release()
    epoch = epoch_of(tmp_path)
    assert epoch is not None
    assert (epoch.token, epoch.is_released) == ("of another", False)


def test_a_fence_is_lost_for_ever(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path)
    ownership.take()
    epoch = epoch_of(tmp_path)
    assert epoch is not None
    replaced(tmp_path, token="of another")
    assert is_lost(tmp_path)
    replaced(tmp_path, token=epoch.token)
    assert is_lost(tmp_path), "the other one may have changed anything"
    ownership.abandon()


def test_where_a_look_costs_a_request_the_last_one_is_good_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    disk = LocalDisk()
    disk.replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "ours"}'))
    fenced = Fenced(disk, Claim(tmp_path, "ours"), patience=1.0)
    assert not fenced.is_lost()
    disk.replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "theirs"}'))
    now = 100.9
    assert not fenced.is_lost()
    now = 101.0
    assert fenced.is_lost()


def test_processes_that_work_for_one_owner_share_their_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    disk = LocalDisk()
    disk.replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "ours"}'))
    driver, planner = (Fenced(disk, Claim(tmp_path, "ours"), patience=1.0) for _ in range(2))
    driver.note = planner.note = tmp_path / "looked"
    assert not driver.is_lost()
    disk.replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "theirs"}'))
    now = 100.9
    assert not planner.is_lost()
    now = 101.0
    assert planner.is_lost()
    assert driver.is_lost()


@pytest.mark.parametrize("note", ["", "100.", "1e9", "nonsense"])
def test_a_note_of_a_look_that_cannot_be_right_is_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    (tmp_path / "looked").write_text(note)
    fenced = Fenced(LocalDisk(), Claim(tmp_path, "ours"), patience=1.0)
    fenced.note = tmp_path / "looked"
    assert fenced.is_lost()


def test_a_look_that_took_long_is_good_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    class Slow(LocalDisk):
        def read(self, path: Path, start: int = 0) -> bytes:
            nonlocal now
            now += 5
            return super().read(path, start)

    disk = Slow()
    disk.replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "ours"}'))
    fenced = Fenced(disk, Claim(tmp_path, "ours"), patience=1.0)
    assert not fenced.is_lost()
    assert now == 105
    now = 119
    assert not fenced.is_lost()
    assert now == 119
    now = 120
    assert not fenced.is_lost()
    assert now == 125


def test_a_storage_can_be_put_behind_a_fence(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path)
    ownership.take()
    disk = LocalDisk()
    mount_below(tmp_path, disk)
    assert unfenced(tmp_path) is disk
    assert claim_to(tmp_path) is not None
    ownership.release()


@pytest.mark.usefixtures("on_shared_storage")
def test_a_checkpoint_that_a_process_of_another_machine_has_not_released_is_taken_over_only_on_request(
    tmp_path: Path,
) -> None:
    ownership = Ownership(tmp_path)
    ownership.take()
    ownership.abandon()
    Ownership(tmp_path).take()  # the lock says that a process of this machine has ended
    replaced(tmp_path, owner=owner.Owner(77, "elsewhere", "headrace run"))
    storage_of(tmp_path)
    with pytest.raises(HostFault, match=r"belongs to process 77 on elsewhere \(headrace run\) since 20") as refused:
        Ownership(tmp_path).take()
    assert refused.value.hint is not None
    assert "--take-over" in refused.value.hint
    newcomer = Ownership(tmp_path, take_over=True)
    assert newcomer.take(), "the refused one has given the lock back"
    newcomer.release()
    replaced(tmp_path, owner=owner.Owner(77, "elsewhere", "headrace run"))
    assert Ownership(tmp_path).take(), "it was released"


def test_on_a_disk_of_this_machine_the_lock_decides(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path)
    ownership.take()
    replaced(tmp_path, owner=owner.Owner(1, "a container", "headrace run"))
    ownership.abandon()
    assert is_of_one_machine(tmp_path)
    assert Ownership(tmp_path).take()


def test_of_two_that_take_it_at_the_same_time_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "lock", lambda file: True)  # as on machines whose locks do not reach each other
    first, second = Ownership(tmp_path), Ownership(tmp_path)
    first.take()
    fence_of_first = storage_of(tmp_path)
    read_tagged = files.read_tagged

    def read_before_the_other(path: Path) -> tuple[bytes, str] | None:
        known = read_tagged(path)
        replaced(tmp_path, token="of a third")
        return known

    monkeypatch.setattr(files, "read_tagged", read_before_the_other)
    with mounted(tmp_path, unfenced(tmp_path)), pytest.raises(HostFault, match="another process has just taken"):
        second.take()
    mount(tmp_path, fence_of_first)
    assert is_lost(tmp_path)
    first.abandon()


def test_a_damaged_epoch_keeps_nobody_out(tmp_path: Path) -> None:
    (tmp_path / EPOCH_FILE).write_bytes(b"{torn")
    ownership = Ownership(tmp_path)
    assert ownership.take()
    check_owner(tmp_path)
    ownership.release()


def test_a_private_directory_has_no_epoch(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path, is_private=True)
    ownership.take()
    assert not (tmp_path / EPOCH_FILE).exists()
    ownership.release()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib/state", "ext4"),
        ("/home/my data/state", "nfs4"),
        ("/scratch", "tmpfs"),
        ("/shared/a/b", "fuse.sshfs"),
        ("relative", None),
    ],
)
def test_the_file_system_of_a_directory_is_that_of_the_innermost_mount(place: str, kind: str | None) -> None:
    assert type_of(Path(place), MOUNTS) == kind
