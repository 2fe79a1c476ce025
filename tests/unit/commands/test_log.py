from pathlib import Path

import pytest

from headrace.commands.command import Drain
from headrace.commands.log import CommandLog
from headrace.errors import HostFault


def test_a_command_that_is_missing_or_damaged_is_a_fault(tmp_path: Path) -> None:
    log = CommandLog(tmp_path)
    for command in (Drain(), Drain()):
        log.append(command)
    with pytest.raises(HostFault, match=r"00000002\.json is missing"):
        CommandLog(tmp_path).between(0, 3)
    data = (tmp_path / "00000001.json").read_bytes()
    (tmp_path / "00000001.json").write_bytes(data.replace(b"drain", b"train"))
    with pytest.raises(HostFault, match=r"00000001\.json is damaged"):
        CommandLog(tmp_path).count()
