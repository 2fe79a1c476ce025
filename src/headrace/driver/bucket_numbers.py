"""The numbers of the buckets with which a checkpoint begins; commands may change which are in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.storage import sealed


def bucket_numbers(directory: Path, choose: Callable[[], list[int]]) -> list[int]:
    """Return the bucket numbers of a checkpoint; a new one gets those that `choose` returns."""
    path = directory / "buckets.json"
    data = sealed.read_if_exists(path)
    if data is None:
        data = msgspec.json.encode(choose())
        sealed.replace(path, data)
    try:
        return msgspec.json.decode(data, type=list[int])
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error
