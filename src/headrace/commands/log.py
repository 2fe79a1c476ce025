"""The durable log of commands: a numbered file for each.

The number of commands is part of the source's offset, so a restart replays them at the same place.
"""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.commands.command import Command, decode_command, encode_command
from headrace.errors import HostFault
from headrace.storage import files


class CommandLog:
    """Numbered files in a directory; a command exists once its file has its final name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: list[Command] = []
        self._lock = threading.RLock()  # users and micro-batches of one process send commands

    def append(self, command: Command) -> int:
        """Append a command durably and return how many there are now."""
        try:
            with self._lock:
                number = len(self.upto(None))
                files.replace(self._path(number), encode_command(command))
        except OSError as error:
            raise HostFault(
                f"cannot write the command log in {self.directory}: {error.strerror}",
                hint="choose a writable --checkpoint",
            ) from error
        return number + 1

    def upto(self, count: int | None) -> list[Command]:
        """Return the first `count` commands (None: all)."""
        with self._lock:
            while count is None or len(self._read) < count:
                data = files.read_if_exists(self._path(len(self._read)))
                if data is None:
                    break
                self._read.append(decode_command(data))
            return self._read[:count]

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}.json"
