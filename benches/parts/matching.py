"""Run Flink's MATCH_RECOGNIZE in a separate process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from benches.parts import flink
from benches.parts.beside_flink import FlinkRun, told
from benches.parts.channels import Bids
from benches.parts.patterns import Pattern

from headrace.errors import HostFault

_TYPES = {"BIGINT": pl.Int64(), "DOUBLE": pl.Float64(), "TIMESTAMP(3)": pl.Datetime("us")}
_MOST_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Detected:
    """What Flink has found, what the run took, and its processor time."""

    found: pl.DataFrame
    took: FlinkRun
    cpu: float


def run(pattern: Pattern, bids: Mapping[str, Bids], parallelism: int) -> dict[str, Detected]:
    """Return Flink's results for each input, one after the other in one JVM."""
    python = flink.find_python()
    if python is None:
        raise HostFault(flink.HINT)
    with tempfile.TemporaryDirectory(prefix="flink-cep-") as folder:
        out = {name: Path(folder) / "out" / name for name in bids}
        job = {
            "columns": pattern.shape,
            "query": pattern.flink(),
            "parallelism": parallelism,
            "runs": [{"name": name, "bids": str(each.halves), "found": str(out[name])} for name, each in bids.items()],
        }
        file = Path(folder) / "job.json"
        file.write_text(json.dumps(job))
        command = [str(python), str(flink.ROOT / "benches" / "flink" / "match.py"), str(file)]
        ended = subprocess.run(
            command, capture_output=True, text=True, env=flink.environment(), timeout=_MOST_SECONDS, check=False
        )
        if ended.returncode:
            lines = ended.stderr.strip().splitlines() or [f"status {ended.returncode}"]
            raise HostFault(
                f"Flink ended: {lines[-1]}", hint="benches/flink/match.py can be run alone; Flink needs Java 17"
            )
        reports = [event for line in ended.stdout.splitlines() if (event := flink.event(line)) is not None]
        return {
            event["name"]: Detected(_found(out[event["name"]], pattern), told(event), event["cpu"]) for event in reports
        }


def _found(folder: Path, pattern: Pattern) -> pl.DataFrame:
    schema = {name: _TYPES[type_] for name, _, type_ in (column.partition(" ") for column in pattern.shape.split(", "))}
    read = {name: pl.String() if isinstance(type_, pl.Datetime) else type_ for name, type_ in schema.items()}
    # Flink's name has no ending; hidden files are not finished
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith((".", "_")) and path.stat().st_size
    ]
    parts = [pl.read_csv(path, has_header=False, schema=read) for path in files]
    matches = pl.concat(parts) if parts else pl.DataFrame(schema=read)
    stamps = [
        pl.col(name).str.to_datetime(time_unit="us") for name, type_ in schema.items() if isinstance(type_, pl.Datetime)
    ]
    return matches.with_columns(stamps)
