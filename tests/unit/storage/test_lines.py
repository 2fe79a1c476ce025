import itertools
import zlib
from pathlib import Path

import pytest

from headrace.errors import HostFault
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
    assert (tmp_path / "log").read_bytes() == b"one\nthree\t>%08x\n" % zlib.crc32(b"three")


def test_a_line_that_has_changed_is_a_fault_or_cannot_be_read_as_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log"
    LineFile(path).append([b"{1}", b"{2}"])
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert _read(path) is None


def _read(path: Path) -> list[bytes] | None:
    """Return lines that a reader takes; None if one is damaged, as our readers find out."""
    try:
        lines = LineFile(path).read_all()
    except HostFault:
        return None
    return lines if all(line.startswith(b"{") and line.endswith(b"}") for line in lines) else None


def test_all_lines_can_be_replaced(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "log")
    lines.append([b"one", b"two"])
    lines.replace([b"two"])
    lines.append([b"three"])
    assert LineFile(tmp_path / "log").read_all() == [b"two", b"three"]


def test_a_line_that_is_missing_repeated_or_moved_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "log"
    LineFile(path).append([b"{1}", b"{2}", b"{3}", b"{2}"])
    whole = path.read_bytes().splitlines(keepends=True)
    for count in range(1, 6):
        for lines in itertools.product(whole, repeat=count):
            path.write_bytes(b"".join(lines))
            # the last lines may be missing: nothing after them says that they were there
            assert (_read(path) is not None) == ([*lines] == whole[:count])


def test_lines_of_earlier_versions_are_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "log"
    single = b"".join(b"%s\t%08x\n" % (line, zlib.crc32(line)) for line in (b"{2}", b"{3}"))
    path.write_bytes(b"{1}\n" + single)
    lines = LineFile(path)
    assert lines.read_all() == [b"{1}", b"{2}", b"{3}"]
    lines.append([b"{4}"])
    lines.append([b"{5}"])
    assert LineFile(path).read_all() == [b"{1}", b"{2}", b"{3}", b"{4}", b"{5}"]
    whole = path.read_bytes().splitlines(keepends=True)
    for place in (2, 3):  # what the first line of this version follows, and that line itself
        path.write_bytes(b"".join(whole[:place] + whole[place + 1 :]))
        with pytest.raises(HostFault, match="damaged: the checksum of a line is wrong"):
            LineFile(path).read_all()
    path.write_bytes(b"".join(whole[1:]) + b"{6}\n")
    with pytest.raises(HostFault, match="damaged: a line has lost its checksum"):
        LineFile(path).read_all()
