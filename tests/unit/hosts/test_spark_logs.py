from pathlib import Path

import pytest

from headrace.hosts.spark.logs import mend, sweep

OFFSET = 'v1\n{"batchWatermarkMs":0}\n{"time": 1, "commands": 3}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_text("crc")
    return path


@pytest.mark.parametrize("length", range(len(OFFSET)))
def test_an_offset_that_was_cut_off_is_planned_again(tmp_path: Path, length: int) -> None:
    before = write(tmp_path, "offsets/9", OFFSET)
    path = write(tmp_path, "offsets/10", OFFSET[:length])
    mend(tmp_path)
    assert before.exists()
    assert not path.exists()
    assert not path.with_name(".10.crc").exists()


@pytest.mark.parametrize("length", range(len(COMMIT)))
def test_a_commit_that_was_cut_off_is_made_again(tmp_path: Path, length: int) -> None:
    path = write(tmp_path, "commits/0", COMMIT[:length])
    mend(tmp_path)
    assert not path.exists()


def test_whole_entries_stay(tmp_path: Path) -> None:
    paths = [write(tmp_path, "offsets/1", OFFSET), write(tmp_path, "commits/1", COMMIT)]
    mend(tmp_path)
    assert all(path.exists() for path in paths)


def test_a_new_checkpoint_has_nothing_to_mend(tmp_path: Path) -> None:
    mend(tmp_path / "spark")
    assert not (tmp_path / "spark").exists()


def test_what_spark_was_writing_when_it_was_killed_goes(tmp_path: Path) -> None:
    folders = [".", "offsets", "commits", "state/0/0", "state/0/11"]
    unique = "2f1b8a52-3f58-4a9e-8a4c-0d3a5f0f6c11"
    hidden = [f".7.{unique}.tmp", f".7.changelog.{unique}.TID14.tmp"]  # as the driver and as tasks name them
    half_done = [tmp_path / folder / name for folder in folders for each in hidden for name in (each, f".{each}.crc")]
    kept = [write(tmp_path, f"{folder}/7.changelog", "whole") for folder in folders]
    kept += [path.with_name(f".{path.name}.crc") for path in kept]
    for path in half_done:
        path.write_text("half")
    assert sweep(tmp_path) == len(half_done)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert sweep(tmp_path) == sweep(tmp_path / "absent") == 0
