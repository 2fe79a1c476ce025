"""The format number of a checkpoint.

It changes when a version of Headrace writes anything into a checkpoint that an earlier one would not understand, or
understands something that an earlier one wrote in another way. Nothing in a checkpoint is guessed: another format is
refused, unless this version understands it as it is and goes on with the new number.
docs/decisions/0023-checkpoint-format.md lists what the number covers.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.errors import HostFault
from headrace.storage import files

#: The format that this version writes, and earlier ones that it continues.
FORMAT = 5
EARLIER = (2, 3, 4)
_FILE = "format.json"


class _Format(Struct, frozen=True):
    format: int


def check_format(directory: Path) -> None:
    """Raise a fault unless a directory holds a checkpoint of this format, or none yet."""
    number = format_of(directory)
    # every checkpoint has one of these once something was defined or sent; other files in its directory are not ours
    if number is None:
        if has_catalog(directory) or files.exists(directory / "commands/00000000.json"):
            raise HostFault(
                f"the checkpoint {directory} has no format number: a version before 0.1.0 wrote it",
                hint="start with a new checkpoint, or finish this one with the version that wrote it",
            )
    elif not can_be_read(number):
        raise HostFault(
            f"the checkpoint {directory} has format {number}, and this version of Headrace reads format {FORMAT}",
            hint="use the version that wrote it"
            + (" (a later one than this)" if number > FORMAT else "")
            + ", or start with a new checkpoint",
        )


def check_exists(directory: Path) -> None:
    """Raise a fault if there is no checkpoint in a directory."""
    if format_of(directory) is None and not has_catalog(directory):
        raise HostFault(f"there is no checkpoint in {directory}", hint="give the folder of --checkpoint")


def can_be_read(number: int) -> bool:
    """Return whether this version can continue a checkpoint with this number."""
    return number == FORMAT or number in EARLIER


def write_format(directory: Path) -> None:
    """Write the format number of a new checkpoint, before anything else is written into it."""
    if format_of(directory) is None:
        _write(directory)


def raise_format(directory: Path) -> None:
    """Give a checkpoint of an earlier format this version's number, before it is continued."""
    if format_of(directory) in EARLIER:
        _write(directory)


def _write(directory: Path) -> None:
    try:
        files.replace(directory / _FILE, msgspec.json.encode(_Format(FORMAT)))
    except OSError as error:
        raise HostFault(
            f"cannot write the checkpoint {directory}: {error.strerror}", hint="choose a directory that can be written"
        ) from error


def format_of(directory: Path) -> int | None:
    """Return the format number of a checkpoint; None if there is none."""
    try:
        data = files.read_if_exists(directory / _FILE)
    except OSError as error:
        raise HostFault(
            f"cannot read the checkpoint {directory}: {error.strerror}",
            hint="look whether the path is right, and whether this user may read it",
        ) from error
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=_Format).format
    except ValueError as error:  # DecodeError is one
        raise HostFault(
            f"the format number of the checkpoint {directory} is damaged: {error}",
            hint="restore the checkpoint from a copy, or start with a new one",
        ) from error


def has_catalog(directory: Path) -> bool:
    """Return whether anything was ever defined in a checkpoint."""
    try:
        files.read_appended(directory / "catalog.jsonl")
    except FileNotFoundError:
        return False
    return True
