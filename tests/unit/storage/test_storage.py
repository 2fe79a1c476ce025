from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.storage import files
from headrace.storage.storage import Tag, Write, mounted, storage_of


class Refusing:
    """A storage that has nothing and takes nothing."""

    def read(self, path: Path, start: int = 0) -> bytes:
        raise FileNotFoundError(path)

    def exists(self, path: Path) -> bool:
        return False

    def force(self, directory: Path) -> None:
        pass

    def sweep(self, directory: Path) -> int:
        return 0

    def names(self, directory: Path) -> list[str]:
        return []

    def replace(self, path: Path, write: Write, *, durable: bool = True, shared: bool = False) -> None:
        pass

    def create(self, path: Path, data: bytes) -> bool:
        return False

    def read_tagged(self, path: Path) -> tuple[bytes, Tag] | None:
        return None

    def swap(self, path: Path, data: bytes, tag: Tag) -> Tag | None:
        return None

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        pass

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        raise FileNotFoundError(path)

    def replace_appended(self, path: Path, data: bytes) -> None:
        pass

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        pass

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        pass


def test_a_mounted_storage_holds_what_lies_below_its_directory(tmp_path: Path) -> None:
    disk = storage_of(tmp_path)
    with mounted(tmp_path / "checkpoint", Refusing()) as storage:
        files.replace(tmp_path / "checkpoint" / "deep" / "a", b"")
        files.replace(tmp_path / "b", b"")
        assert storage_of(tmp_path / "checkpoint") is storage
        with mounted(tmp_path / "checkpoint" / "deep", disk):
            assert storage_of(tmp_path / "checkpoint" / "deep" / "a") is disk
        assert storage_of(tmp_path / "checkpoint" / "deep" / "a") is storage
    assert files.names(tmp_path) == ["b"]
    assert storage_of(tmp_path / "checkpoint") is disk
