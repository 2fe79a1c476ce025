"""HDFS as a storage: what every storage does, with faults of the name node as well."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hadoop.server import Hadoop
from tests.objects.imitation import Proxy
from tests.unit.storage import test_contract

from headrace.storage.hdfs import settings
from headrace.storage.hdfs.store import HdfsStore
from headrace.storage.objects import ObjectStorage
from headrace.storage.storage import Storage

Check = Callable[[tuple[Storage, Path]], None]
CONTRACT: dict[str, Check] = {
    name.removeprefix("test_"): check
    for name, check in vars(test_contract).items()
    if name.startswith("test_") and all(mark.name != "objects" for mark in getattr(check, "pytestmark", []))
}
# Hundreds of files, each of which is several requests: the test of faults adds to a file, too.
for _long in ("appended_bytes_follow_each_other", "a_listing_of_many_names_is_complete"):
    del CONTRACT[_long]


@pytest.fixture
def proxy(hadoop: Hadoop) -> Iterator[Proxy]:
    """What stands between clients and the name node."""
    proxy = Proxy(hadoop.http)
    threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    hadoop.publish(proxy.server_address[1])
    settings._read.cache_clear()
    yield proxy
    hadoop.publish(hadoop.http)
    settings._read.cache_clear()
    proxy.shutdown()
    proxy.server_close()


@pytest.mark.parametrize("check", CONTRACT.values(), ids=CONTRACT)
def test_it_does_what_every_storage_does(place: Path, check: Check) -> None:
    check((ObjectStorage(), place / "deep" / "directory"))


@pytest.mark.parametrize("fault", ["lose_request_every", "lose_answer_every", "refuse_every"])
def test_faults_that_pass_do_not_show(place: Path, proxy: Proxy, fault: str) -> None:
    storage = ObjectStorage(pause=lambda seconds: None)
    setattr(proxy, fault, 11)  # what is one request of an object store is up to nine of the name node
    test_contract.check_that_faults_do_not_show(storage, place, rounds=3)
    proxy.heal()
    storage.sweep(place)
    assert not [one.path for one in storage.listing(place) if one.path.name.endswith(".tmp")]


def test_a_swap_that_comes_too_late_is_refused_although_its_number_is_free_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, swap = place / "epoch.json", HdfsStore._place
    storage, other = ObjectStorage(), ObjectStorage()
    assert storage.create(path, b"first")
    known = storage.read_tagged(path)
    assert known is not None

    def overtaken(store: HdfsStore, *arguments: Any, **options: Any) -> bool:
        """Let another process swap three times while this one is stopped, just before its own change."""
        monkeypatch.setattr(HdfsStore, "_place", swap)
        tag: str | None = known[1]
        for number in range(3):
            assert tag is not None
            tag = other.swap(path, b"other %d" % number, tag)
        return swap(store, *arguments, **options)

    monkeypatch.setattr(HdfsStore, "_place", overtaken)
    assert storage.swap(path, b"too late", known[1]) is None
    assert storage.read(path) == other.read(path) == b"other 2"
    newest = other.read_tagged(path)
    assert newest is not None
    assert other.swap(path, b"other 3", newest[1]) is not None
    assert storage.read(path) == b"other 3"
    assert [one.path.name for one in storage.listing(place)] == ["000000000004", "epoch.json"]
    storage.replace(path, lambda file: file.write(b"whatever was there"))
    assert storage.read(path) == b"whatever was there"
    storage.remove([path])
    assert storage.read_tagged(path) is None
    assert storage.names(place) == []
