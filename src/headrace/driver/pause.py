"""Keeping micro-batches from beginning: a file by which the driver stops the process that plans them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headrace.storage import files


def pause(directory: Path) -> None:
    """Let no further micro-batch begin, so that a deployment can stop between two of them.

    On a full disk they go on: the one that is running when the deployment stops is repeated later.
    """
    with suppress(OSError):
        files.replace(_file(directory), b"", durable=False)  # it need not last: a deployment that begins removes it


def resume(directory: Path) -> None:
    """Let micro-batches begin again."""
    files.remove(_file(directory), durable=False)


def is_paused(directory: Path) -> bool:
    """Return whether `pause` is in force."""
    return files.read_if_exists(_file(directory)) is not None


def _file(directory: Path) -> Path:
    return directory / "pause"
