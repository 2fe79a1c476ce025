"""A copy of a checkpoint is complete and unchanged, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.session import Session
from headrace.storage.backup import Manifest, back_up, read_manifest, restore
from headrace.storage.format import write_format
from headrace.storage.owner import Ownership


def copy(checkpoint: Path, to: Path) -> Manifest:
    return back_up(checkpoint, to, version="0.1.0", time="2026-01-01T00:00:00")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    with Session(state, host="local") as session:
        session.execute(
            "CREATE STREAM s (n INT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;"
            "CREATE QUERY sums AS SELECT sum(n) AS total FROM s [RANGE 10 SECONDS] INTO MEMORY"
        )
        session.push("s", [{"n": 1, "at": "2026-01-01 00:00:01"}, {"n": 2, "at": "2026-01-01 00:00:02"}])
        assert session.deployment.step()  # type: ignore[attr-defined]
    for name in ("cache/0/chunk.arrow", "spark.log", ".progress.json.7.tmp", "spark/.metadata.crc"):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text("x")
    return state


def test_a_restored_copy_continues_where_the_checkpoint_was(state: Path, tmp_path: Path) -> None:
    copy(state, tmp_path / "copy")
    with Session(state, host="local") as session:
        session.push("s", [{"n": 100, "at": "2026-01-01 00:00:03"}])
        session.drain(60)
        assert session.results("sums") == [{"total": 103}]
    restore(tmp_path / "copy", tmp_path / "again")
    with Session(tmp_path / "again", host="local") as session:
        session.push("s", [{"n": 10, "at": "2026-01-01 00:00:03"}])
        session.drain(60)
        assert session.results("sums") == [{"total": 13}]


def test_a_copy_has_what_a_checkpoint_needs_and_no_more(state: Path, tmp_path: Path) -> None:
    manifest = copy(state, tmp_path / "copy")
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert copied == {*manifest.files, "manifest.json"}
    assert {"catalog.jsonl", "format.json", "local.msgpack", "spark/.metadata.crc"} < copied
    assert not {"owner.json", "spark.log", "cache/0/chunk.arrow", ".progress.json.7.tmp"} & copied
    assert read_manifest(tmp_path / "copy") == manifest
    restore(tmp_path / "copy", tmp_path / "again")
    assert not (tmp_path / "again" / "manifest.json").exists()
    for name in manifest.files:
        assert (tmp_path / "again" / name).read_bytes() == (state / name).read_bytes()


def test_a_checkpoint_in_use_is_not_copied(state: Path, tmp_path: Path) -> None:
    owner = Ownership(state)
    owner.take()
    with pytest.raises(HostFault, match="is in use by process"):
        copy(state, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    owner.release()
    copy(state, tmp_path / "copy")
    Ownership(state).take()  # the copy has released it


def test_a_changed_or_missing_file_of_a_copy_is_refused(state: Path, tmp_path: Path) -> None:
    copy(state, tmp_path / "copy")
    catalog = tmp_path / "copy" / "catalog.jsonl"
    before = catalog.read_bytes()
    catalog.write_bytes(before.replace(b"sum", b"min"))
    with pytest.raises(HostFault, match=r"catalog\.jsonl has changed since the copy was taken"):
        restore(tmp_path / "copy", tmp_path / "again")
    catalog.unlink()
    with pytest.raises(HostFault, match=r"catalog\.jsonl is missing"):
        restore(tmp_path / "copy", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    catalog.write_bytes(before)
    restore(tmp_path / "copy", tmp_path / "again")
    assert not list(tmp_path.glob(".*.partial"))


def test_nothing_is_overwritten(state: Path, tmp_path: Path) -> None:
    copy(state, tmp_path / "copy")
    with pytest.raises(HostFault, match="exists and is not empty"):
        copy(state, tmp_path / "copy")
    with pytest.raises(HostFault, match="exists and is not empty"):
        restore(tmp_path / "copy", state)
    with pytest.raises(HostFault, match="would be in the checkpoint itself"):
        copy(state, state / "copy")


def test_what_is_no_checkpoint_and_no_copy_is_refused(state: Path, tmp_path: Path) -> None:
    with pytest.raises(HostFault, match="there is no checkpoint in"):
        copy(tmp_path / "nothing", tmp_path / "copy")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(HostFault, match="there is no copy of a checkpoint in"):
        restore(state, tmp_path / "again")


def test_a_copy_of_another_format_is_refused(tmp_path: Path) -> None:
    write_format(tmp_path / "state")
    copy(tmp_path / "state", tmp_path / "copy")
    (tmp_path / "copy" / "format.json").write_text('{"format":99}')
    with pytest.raises(HostFault, match="has format 99"):
        restore(tmp_path / "copy", tmp_path / "again")
