"""What a crash or a power cut leaves of the files in which Spark keeps its micro-batches.

Spark does not force its files to disk, and refuses to start if the last entry of a log cannot be read. A delivery
forces everything of Spark's to disk before it begins. So an entry that is damaged is that of a micro-batch whose
delivery never began, or the note that a delivery is complete: without it, the micro-batch is planned again, or
delivered again.

Spark writes a file under a hidden name and renames it. It never deletes what a crash left under such a name.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.storage import files

#: The lines of an entry of each log at least: version, settings, and for an offset the offset itself.
_LINES = {"offsets": 3, "commits": 2}


def mend(directory: Path) -> None:
    """Delete the last entries of Spark's logs in a directory if they are not whole."""
    for log, lines in _LINES.items():
        numbers = [int(name) for name in files.names(directory / log) if name.isdigit()]
        if numbers:
            path = directory / log / str(max(numbers))
            checksum = path.with_name(f".{path.name}.crc")
            if is_whole(files.read(path), lines):
                files.remove(checksum)  # it may be damaged as well, and need not exist
            else:
                files.remove(path, checksum)


def sweep(directory: Path) -> int:
    """Delete what Spark was writing when it was killed; count it. Nothing may run in the directory."""
    state = directory / "state"
    operators = [state / name for name in files.names(state)]
    stores = [operator / name for operator in operators for name in files.names(operator)]
    return sum(files.sweep(folder) for folder in (directory, *(directory / log for log in _LINES), *stores))


def is_whole(data: bytes, lines: int) -> bool:
    """Return whether an entry of a log has at least so many lines, all of which can be read."""
    version, *texts = data.split(b"\n")
    if not version.startswith(b"v") or len(texts) + 1 < lines:
        return False
    try:
        for text in texts:
            msgspec.json.decode(text)
    except ValueError:  # DecodeError is one
        return False
    return True
