from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.session import Session
from headrace.storage.format import EARLIER, FORMAT, check_format, write_format

STREAM = "CREATE STREAM s (v INT) FROM MEMORY"


def test_a_new_checkpoint_gets_the_number_with_its_first_statement(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with Session(checkpoint, host="local") as session:
        assert not checkpoint.exists()
        session.execute(STREAM)
    assert (checkpoint / "format.json").read_text() == f'{{"format":{FORMAT}}}'


def test_a_checkpoint_of_the_same_format_is_opened_again(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAM)
    with Session(tmp_path, host="local") as session:
        assert [stream.name for stream in session.catalog.streams()] == ["s"]


@pytest.mark.parametrize("number", [min(EARLIER) - 1, FORMAT + 1])
def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, number: int) -> None:
    (tmp_path / "format.json").write_text(f'{{"format": {number}, "more": "than we know"}}')
    with pytest.raises(
        HostFault, match=f"has format {number}, and this version of Headrace reads format {FORMAT}"
    ) as caught:
        Session(tmp_path, host="local")
    assert caught.value.hint is not None
    assert ("later" in caught.value.hint) == (number > FORMAT)


@pytest.mark.parametrize("content", ["catalog.jsonl", "commands/00000000.json"])
def test_a_checkpoint_without_a_number_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / content).parent.mkdir(exist_ok=True)
    (tmp_path / content).touch()
    with pytest.raises(HostFault, match="has no format number"):
        Session(tmp_path, host="local")


@pytest.mark.parametrize("content", ["", "1", "{}", '{"format": "one"}', "\x00\xff"])
def test_a_damaged_number_is_a_fault_that_says_so(tmp_path: Path, content: str) -> None:
    (tmp_path / "format.json").write_text(content)
    with pytest.raises(HostFault, match=r"format number of the checkpoint .* is damaged"):
        check_format(tmp_path)


def test_an_empty_directory_and_one_with_other_files_can_become_a_checkpoint(tmp_path: Path) -> None:
    for name in ("empty", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "bids.csv").write_text("1,2")
    (tmp_path / "other" / "commands").mkdir()
    for name in ("empty", "other"):
        with Session(tmp_path / name, host="local") as session:
            session.execute(STREAM)
        check_format(tmp_path / name)


def test_a_file_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_format(tmp_path / "file")
    with pytest.raises(HostFault, match="cannot write the checkpoint"):
        write_format(tmp_path / "file")
