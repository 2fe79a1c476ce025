from pathlib import Path

import pytest

from headrace.hosts.spark.logs import mend

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
