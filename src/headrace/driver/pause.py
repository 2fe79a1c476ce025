"""Keeping micro-batches from beginning: a file by which the driver stops the process that plans them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headrace.storage import files
from headrace.storage.fence import claim_to
from headrace.storage.scratch import scratch_of


def pause(directory: Path) -> None:
    """Let no further micro-batch begin, so that a deployment can stop between two of them.

    On a full disk they go on: the one that is running when the deployment stops is repeated later.
    """
    with suppress(OSError):
        # it need not last: a deployment that begins removes it
        files.replace(_file(directory), _who(directory), durable=False)


def resume(directory: Path) -> None:
    """Let micro-batches begin again."""
    files.remove(_file(directory), durable=False)


def is_paused(directory: Path) -> bool:
    """Return whether `pause` is in force; an owner that was replaced cannot make another one pause."""
    return files.read_if_exists(_file(directory)) == _who(directory)


def _who(directory: Path) -> bytes:
    claim = claim_to(directory)
    return b"" if claim is None else claim.token.encode()


def _file(directory: Path) -> Path:
    return scratch_of(directory) / "pause"
