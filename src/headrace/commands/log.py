"""The durable log of commands: a file for each, numbered; it is part of the source's offset, so a restart replays them at the same place."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from headrace.commands.command import Command, decode_command, encode_command
from headrace.errors import HostFault


class CommandLog:
    """Numbered files in a directory; a command is there once its file has its final name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: list[Command] = []
        self._lock = threading.RLock()  # users and micro-batches of one process send commands

    def append(self, command: Command) -> int:
        """Add a command durably; returns how many there are now."""
        try:
            with self._lock:
                self.directory.mkdir(parents=True, exist_ok=True)
                number = len(self.upto(None))
                temporary = self.directory / f".{number:08d}"
                with temporary.open("wb") as file:
                    file.write(encode_command(command))
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.directory / f"{number:08d}.json")
        except OSError as error:
            raise HostFault(
                f"cannot write the command log in {self.directory}: {error.strerror}",
                hint="choose a writable --checkpoint",
            ) from error
        return number + 1

    def upto(self, count: int | None) -> list[Command]:
        """The first `count` commands (None: all there are)."""
        with self._lock:
            while count is None or len(self._read) < count:
                path = self.directory / f"{len(self._read):08d}.json"
                if not path.exists():
                    break
                self._read.append(decode_command(path.read_bytes()))
            return self._read[:count]
