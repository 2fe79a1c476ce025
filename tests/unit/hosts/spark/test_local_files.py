"""Files of Spark on a local disk: where another class for them is not wanted, or fails, all stays as it is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.hosts.spark.starting.local_files import use_local_files


class Gateway:
    """A JVM whose Hadoop has these settings, and whose compiler fails."""

    def __init__(self, chosen: str | None = None, *, is_native: bool = False) -> None:
        self.compiled = 0
        configuration = SimpleNamespace(get={"fs.file.impl": chosen}.get)
        native = SimpleNamespace(NativeIO=SimpleNamespace(isAvailable=lambda: is_native))
        hadoop = SimpleNamespace(
            conf=SimpleNamespace(Configuration=lambda: configuration), io=SimpleNamespace(nativeio=native)
        )
        self.jvm: Any = SimpleNamespace(
            org=SimpleNamespace(
                apache=SimpleNamespace(hadoop=hadoop),
                codehaus=SimpleNamespace(janino=SimpleNamespace(SimpleCompiler=self._compile)),
            )
        )

    def _compile(self) -> None:
        self.compiled += 1
        raise RuntimeError("no compiler")


@pytest.mark.parametrize(
    ("gateway", "settings"),
    [
        (Gateway(is_native=True), {}),
        (Gateway("mine.Files"), {}),
        (Gateway(), {"spark.hadoop.fs.file.impl": "mine.Files"}),
    ],
    ids=["native library", "Hadoop's settings", "Spark's settings"],
)
def test_a_class_of_the_user_or_of_hadoop_stays(gateway: Gateway, settings: dict[str, str], tmp_path: Path) -> None:
    use_local_files(gateway, settings, tmp_path)
    assert gateway.compiled == 0


def test_a_compiler_that_fails_changes_nothing(tmp_path: Path) -> None:
    gateway = Gateway()
    use_local_files(gateway, {}, tmp_path)
    assert gateway.compiled == 1
    assert list(tmp_path.iterdir()) == []


def test_a_cache_folder_that_cannot_be_made_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    gateway = Gateway()
    use_local_files(gateway, {}, tmp_path / "file")
    assert gateway.compiled == 0
