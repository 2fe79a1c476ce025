"""Parcels of keys that change bucket."""

from __future__ import annotations

from msgspec import Struct


class Moved(Struct, frozen=True, array_like=True):
    """A file with parcels that a bucket has given away for another."""

    name: str
    bucket: int  # that takes them in
    parcels: int
    rows: int
    bytes: int
