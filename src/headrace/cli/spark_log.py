"""Keep Spark's own log off the terminal: it goes to a file that error messages name."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

_log: Path | None = None


def divert(directory: Path | None) -> Path:
    """Send the standard error of Spark's processes to a file; that of this process still reaches the terminal.

    Spark's JVM and workers inherit file descriptor 2, so this must come before Spark starts.
    """
    global _log
    if _log is None:
        place = Path(tempfile.gettempdir()) if directory is None else directory
        place.mkdir(parents=True, exist_ok=True)
        path = place / ("spark.log" if directory is not None else f"headrace-spark-{os.getpid()}.log")
        sys.stderr.flush()
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
        target = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(target, 2)
        os.close(target)
        _log = path
    return _log


def log() -> Path | None:
    """Return the file of Spark's log, or None if the log goes to the terminal."""
    return _log
