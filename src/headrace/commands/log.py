"""The durable log of commands: numbered files, each with the commands that take effect together.

The number of commands is part of the source's offset, so a restart replays them at the same place. A file has the
number of its first command; a micro-batch sees all commands of a file or none.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from headrace.commands.command import Command, decode_commands, encode_commands
from headrace.errors import HostFault
from headrace.storage import files


class CommandLog:
    """Numbered files in a directory; a command exists once its file has its final name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: list[Command] = []
        self._lock = threading.RLock()  # users and micro-batches of one process send commands

    def append(self, *commands: Command) -> int:
        """Append commands durably, all or none, and return how many there are now."""
        try:
            with self._lock:
                count = len(self.upto(None))
                if commands:
                    files.replace(self._path(count), encode_commands(commands))
        except OSError as error:
            raise HostFault(
                f"cannot write the command log in {self.directory}: {error.strerror}",
                hint="choose a writable --checkpoint",
            ) from error
        return count + len(commands)

    def upto(self, count: int | None) -> list[Command]:
        """Return the first `count` commands (None: all); raise a fault if there are fewer."""
        with self._lock:
            while count is None or len(self._read) < count:
                path = self._path(len(self._read))
                data = files.read_if_exists(path)
                if data is not None:
                    self._read += _decode(data, path)
                elif count is None:
                    break
                else:
                    raise HostFault(f"{path} is missing", hint="restore the checkpoint folder from a copy")
            return self._read[:count]

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}.json"


def _decode(data: bytes, path: Path) -> list[Command]:
    try:
        return decode_commands(data)
    except msgspec.DecodeError as error:
        raise HostFault(f"{path} is damaged: {error}", hint="restore the checkpoint folder from a copy") from error
