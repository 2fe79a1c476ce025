"""What other users of the machine can read: nothing that Headrace keeps, and of sinks what the umask allows."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.prompt.shell import history_file
from headrace.hosts.spark.starting.scratch import folder_settings, private_folder
from headrace.session import Session
from headrace.storage import files
from headrace.storage.temporary import OLD, sweep
from headrace.worker.chunk_cache import ChunkCache


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(directory: Path) -> list[str]:
    return [str(path) for path in (directory, *directory.rglob("*")) if mode(path) & 0o077]


def test_nobody_else_can_read_a_checkpoint(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    with Session(state, host="local") as session:
        session.execute(
            "CREATE STREAM s (x INT) FROM MEMORY; CREATE EVENT e (x INT);"
            "CREATE RULE r ON s DO CALL webhook('http://127.0.0.1:1/'), RAISE EVENT e(x);"
            f"CREATE QUERY q AS SELECT x FROM s INTO FILES (path '{tmp_path}/out/deep');"
        )
        session.push("s", [{"x": 1}])
        session.drain()
    assert open_to_others(tmp_path / "new") == []
    assert (state / "catalog.jsonl").exists()
    assert list((state / "sources").iterdir())
    assert list((state / "commands").iterdir())


def test_the_files_of_a_sink_have_the_modes_that_the_umask_gives(tmp_path: Path) -> None:
    with Session(tmp_path / "state", host="local") as session:
        session.execute(
            "CREATE STREAM s (x INT) FROM MEMORY;"
            f"CREATE QUERY q AS SELECT x FROM s INTO FILES (path '{tmp_path}/out/deep');"
        )
        session.push("s", [{"x": 1}])
        session.drain()
    (result,) = (tmp_path / "out" / "deep").iterdir()
    assert (mode(result), mode(result.parent)) == (0o644, 0o755)


def test_a_staging_directory_of_a_sink_is_shared_as_well(tmp_path: Path) -> None:
    files.replace_encoded(tmp_path / "out" / "_staging" / "part", lambda file: file.write(b"x"), shared=True)
    assert (mode(tmp_path / "out" / "_staging"), mode(tmp_path / "out" / "_staging" / "part")) == (0o755, 0o644)


def test_a_directory_that_exists_keeps_its_mode_and_what_is_made_in_it_is_private(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    files.append(tmp_path / "state" / "a" / "lines", b"x")
    assert mode(tmp_path / "state") == 0o755
    assert open_to_others(tmp_path / "state" / "a") == []


def test_chunks_in_the_cache_are_private(tmp_path: Path) -> None:
    ChunkCache(tmp_path / "cache").put(b"digest", b"x")
    assert open_to_others(tmp_path / "cache") == []
    assert len(list(tmp_path.rglob("*.arrow"))) == 1


def test_a_link_in_place_of_a_hidden_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / f".a.{os.getpid()}.tmp").symlink_to(tmp_path / "victim")
    files.replace_encoded(tmp_path / "a", lambda file: file.write(b"new"), shared=True)
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not (tmp_path / "a").is_symlink()


def test_the_history_of_the_prompt_is_private_also_if_it_was_not(tmp_path: Path) -> None:
    (tmp_path / ".headrace").mkdir(mode=0o700)
    (tmp_path / ".headrace" / "history").write_text("+SHOW QUERIES;\n")
    assert mode(history_file(tmp_path)) == 0o600
    assert history_file(tmp_path).read_text() == "+SHOW QUERIES;\n"
    assert open_to_others(history_file(tmp_path / "other").parent) == []


def test_spark_shuffles_and_listens_in_a_private_folder() -> None:
    chosen = folder_settings(private_folder(), {})
    assert chosen["spark.local.dir"] == chosen["spark.python.unix.domain.socket.dir"]
    folder = Path(chosen["spark.local.dir"])
    assert mode(folder) == 0o700
    os.utime(folder, (0, 0))
    sweep(folder.parent, 2 * OLD)
    assert folder.exists()  # Spark may run for longer than leftovers are kept
    assert "spark.local.dir" not in folder_settings(private_folder(), {"SPARK_LOCAL_DIRS": "/fast/disk"})
