"""The path on which a Python process of Spark finds PySpark: as a zip of sources, or installed and compiled."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

_VERSION = re.compile(rb"__version__[^=\n]*=\s*['\"]([^'\"]+)['\"]")


def without_zips(path: Sequence[str]) -> list[str]:
    """Return a path without Spark's zips of Python sources, if an installed PySpark of the same version is on it."""
    rest = [entry for entry in path if not entry.endswith(("pyspark.zip", "-src.zip"))]
    zips = [entry for entry in path if entry.endswith("pyspark.zip")]
    if len(rest) == len(path) or PathFinder.find_spec("py4j", rest) is None:
        return list(path)
    installed = PathFinder.find_spec("pyspark", rest)
    if installed is None or installed.origin is None:
        return list(path)
    version = _version((Path(installed.origin).parent / "version.py").read_bytes())
    return rest if all(_version_in(entry) == version for entry in zips) else list(path)


def _version_in(archive: str) -> str | None:
    try:
        with zipfile.ZipFile(archive) as content:
            return _version(content.read("pyspark/version.py"))
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def _version(text: bytes) -> str | None:
    match = _VERSION.search(text)
    return match[1].decode() if match else None
