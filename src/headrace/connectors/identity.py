"""The name under which a sink's server knows a checkpoint."""

from __future__ import annotations

import uuid
from pathlib import Path

from headrace.storage import files


def identity(checkpoint: Path, kind: str) -> str:
    """Return a name that is fixed for a checkpoint and unique to it; the first to ask chooses it."""
    path = checkpoint / "sinks" / kind
    name = files.read_if_exists(path)
    if name is None:
        name = uuid.uuid4().hex.encode()
        files.replace(path, name)
    return name.decode()
