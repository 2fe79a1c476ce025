"""The numbers of the buckets with which a checkpoint begins; commands may change which are in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.driver.progress import has_progress
from headrace.errors import HostFault
from headrace.storage import files, sealed


def bucket_numbers(directory: Path, choose: Callable[[], list[int]]) -> list[int]:
    """Return the bucket numbers of a checkpoint; a new one gets those that `choose` returns."""
    path = _path(directory)
    data = sealed.read_if_exists(path)
    if data is None:
        check_kept(directory)
        data = msgspec.json.encode(choose())
        sealed.replace(path, data)
    try:
        return msgspec.json.decode(data, type=list[int])
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error


def check_kept(directory: Path) -> None:
    """Raise a fault if the bucket numbers are lost: keys would go to other buckets than those with their state."""
    if has_progress(directory) and not files.exists(_path(directory)):
        raise HostFault(f"{_path(directory)} is missing", hint="restore the checkpoint folder from a copy")


def _path(directory: Path) -> Path:
    return directory / "buckets.json"
