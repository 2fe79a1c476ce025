"""Prometheus and promtool: on the PATH, or where `tests/prometheus/setup` puts them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(name: str) -> str:
    """Return a program of Prometheus; skip the test if it is not there."""
    own = ROOT / ".prometheus" / "usr" / "bin" / name
    found = shutil.which(name) or (str(own) if own.is_file() else None)
    if found is None:
        pytest.skip(f"{name} is not installed: tests/prometheus/setup gets Debian's package")
    return found
