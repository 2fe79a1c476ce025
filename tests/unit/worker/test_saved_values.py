"""Values beside the state, such as queries: a process that knows one by its digest does not ask the store for it."""

from collections import OrderedDict

import msgspec
import pytest

from headrace.engine.remembered import Remembered
from headrace.errors import HostFault
from headrace.hosts.local import MemoryStore
from headrace.worker import saved_state
from headrace.worker.saved_state import Extra, SavedState

EXTRA = Extra(bounds={}, time=0, engine=Remembered())


class AskedStore(MemoryStore):
    """A store that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.asked.append(name)
        return super().get(name)


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)


@pytest.fixture
def store() -> AskedStore:
    return AskedStore()


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on as a process that knows nothing."""
    monkeypatch.setattr(saved_state, "_known", OrderedDict())


def save(saved: SavedState, batch: int, store: MemoryStore, queries: bytes | None = None) -> SavedState:
    saved.save(batch, store, {}, EXTRA, {} if queries is None else {"queries": lambda: queries})
    return saved


def queries_in(store: AskedStore) -> tuple[bytes | None, list[str]]:
    """Return the queries that a bucket is restored with, and what the store was asked for."""
    store.asked.clear()
    saved = SavedState(0, None)
    queries = saved.value("queries", store)
    saved.load(store)
    return queries, store.asked


def test_a_process_that_wrote_a_value_does_not_ask_for_it(store: AskedStore) -> None:
    save(SavedState(0, None), 1, store, b"first")
    assert queries_in(store) == (b"first", ["manifest", "version"])


def test_a_process_asks_once(store: AskedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(SavedState(0, None), 1, store, b"first")
    forget(monkeypatch)
    assert queries_in(store) == (b"first", ["manifest", "queries", "version"])
    assert queries_in(store) == (b"first", ["manifest", "version"])


def test_a_value_that_another_process_has_changed_is_read(store: AskedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = save(SavedState(0, None), 1, store, b"first")
    here = saved_state._known
    forget(monkeypatch)
    save(saved, 2, store, b"second")
    monkeypatch.setattr(saved_state, "_known", here)
    assert queries_in(store) == (b"second", ["manifest", "queries", "version"])


def test_a_value_that_stays_is_known_after_later_saves(store: AskedStore) -> None:
    saved = save(SavedState(0, None), 1, store, b"first")
    save(saved, 2, store)
    restored = SavedState(0, None)
    restored.load(store)
    save(restored, 3, store)
    assert queries_in(store) == (b"first", ["manifest", "version"])


def test_a_value_that_changed_at_rest_is_a_fault(store: AskedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(SavedState(0, None), 1, store, b"first")
    forget(monkeypatch)
    store.values["queries"] = b"other"
    with pytest.raises(HostFault, match="bucket 0 is damaged: the value queries is not the one that was saved"):
        queries_in(store)


def test_a_value_of_an_earlier_version_is_read(store: AskedStore) -> None:
    save(SavedState(0, None), 1, store, b"first")
    manifest = msgspec.msgpack.decode(store.values["manifest"].rpartition(b"\n#")[0])
    del manifest["values"]
    store.values["manifest"] = msgspec.msgpack.encode(manifest)
    assert queries_in(store) == (b"first", ["manifest", "queries", "version"])
