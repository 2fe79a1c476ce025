from pathlib import Path

from headrace.storage.lines import LineFile


def test_lines_are_read_once_each_by_every_reader(tmp_path: Path) -> None:
    writer, reader = LineFile(tmp_path / "log"), LineFile(tmp_path / "log")
    assert reader.read_new() == []
    writer.append([b"one", b"two"])
    assert reader.read_new() == [b"one", b"two"]
    writer.append([b"three"])
    assert reader.read_new() == [b"three"]
    assert reader.read_all() == [b"one", b"two", b"three"]
    assert writer.read_new() == []


def test_a_torn_line_is_not_read_and_is_cut_off_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntw")
    lines = LineFile(tmp_path / "log")
    assert lines.read_new() == [b"one"]
    lines.append([b"three"])
    assert (tmp_path / "log").read_bytes() == b"one\nthree\n"


def test_all_lines_can_be_replaced(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "log")
    lines.append([b"one", b"two"])
    lines.replace([b"two"])
    lines.append([b"three"])
    assert LineFile(tmp_path / "log").read_all() == [b"two", b"three"]
