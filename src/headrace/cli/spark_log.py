"""Keep Spark's own log off the terminal: it goes to a file whose name an error can tell."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

_log: Path | None = None


def divert(directory: Path | None) -> Path:
    """Send what Spark's processes write to standard error to a file; what this process says still reaches the terminal.

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
    """Where Spark's log is, if it was sent away."""
    return _log
