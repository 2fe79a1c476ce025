"""The numbers of the buckets with which a checkpoint begins; commands may change which are in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.driver.progress import has_progress
from headrace.errors import HostFault
from headrace.storage import sealed


def bucket_numbers(directory: Path, choose: Callable[[], list[int]]) -> list[int]:
    """Return the bucket numbers of a checkpoint; a new one gets those that `choose` returns.

    Raises a fault if they are lost: keys would go to other buckets than those with their state.
    """
    path = directory / "buckets.json"
    data = sealed.read_if_exists(path)
    if data is None and has_progress(directory):
        raise HostFault(f"{path} is missing", hint="restore the checkpoint folder from a copy")
    if data is None:
        data = msgspec.json.encode(choose())
        sealed.replace(path, data)
    try:
        return msgspec.json.decode(data, type=list[int])
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error
