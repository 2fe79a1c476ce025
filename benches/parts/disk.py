"""A small disk in memory for a folder, which can be filled up; only users who may mount have one."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

MEGABYTES = 1024
_BALLAST = "ballast"


class SmallDisk:
    """A folder that is a disk of its own where that is permitted, and a folder like others elsewhere."""

    def __init__(self, folder: Path, megabytes: int = MEGABYTES) -> None:
        self.folder = folder
        self._is_full = threading.Event()
        self._filler: threading.Thread | None = None
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder)]
        try:
            self.is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            self.is_mounted = False

    def fill(self) -> None:
        """Leave no room, and take what others free, until `free` is called."""
        if not self.is_mounted:
            raise ValueError(f"{self.folder} is no disk of its own: it must not be filled")
        self._is_full.set()
        self._fill()
        self._filler = threading.Thread(target=self._keep_full, daemon=True)
        self._filler.start()

    def free(self) -> None:
        """Delete what filled the disk."""
        self._is_full.clear()
        if self._filler is not None:
            self._filler.join()
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def _keep_full(self) -> None:
        while self._is_full.is_set():
            self._fill()
            time.sleep(0.02)

    def _fill(self) -> None:
        with (self.folder / _BALLAST).open("ab") as ballast:
            disk = os.statvfs(self.folder)
            size = disk.f_bavail * disk.f_frsize
            while size >= disk.f_frsize:
                try:
                    os.posix_fallocate(ballast.fileno(), ballast.seek(0, os.SEEK_END), size)
                except OSError:
                    size //= 2  # others have written meanwhile

    def remove(self) -> None:
        """Give the disk back, with everything on it."""
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, check=False)
            self.is_mounted = False
