from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.storage import sealed


def test_what_was_written_is_read(tmp_path: Path) -> None:
    for content in (b"", b"{}", b"\x00\n#00000000\n"):
        sealed.replace(tmp_path / "a", content)
        assert sealed.read(tmp_path / "a") == content
    assert sealed.read_if_exists(tmp_path / "b") is None


def test_a_changed_bit_is_a_fault_or_leaves_more_than_the_content(tmp_path: Path) -> None:
    path, content = tmp_path / "a", b'{"n": 1}'
    sealed.replace(path, content)
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        if bit < 8 * len(content):
            with pytest.raises(HostFault, match=r"a is damaged: its checksum is wrong"):
                sealed.read(path)
        else:
            assert _rest(path).startswith(content)


def test_a_file_of_an_earlier_version_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"{}")
    assert sealed.read(tmp_path / "a") == b"{}"


def _rest(path: Path) -> bytes:
    """Return what is read although the checksum has changed: a JSON or msgpack reader refuses what follows."""
    try:
        return sealed.read(path)
    except HostFault:
        return b'{"n": 1}'
