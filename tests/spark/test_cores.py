"""The same files give the same answers with one, two and four cores, and the same records are late."""

import random
import subprocess
import sys

import polars as pl
import pytest

SCRIPT = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 2 SECONDS FROM FILES (path '{data}', format 'csv');
CREATE QUERY counts AS SELECT k, count(*) AS n, sum(v) AS total, window_end
    FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY late AS SELECT k, v FROM s.late INTO FILES (path '{out}/late', format 'parquet');
"""
ROWS = 20_000


def _write(folder):
    """Write four files whose records are late by chance; they are large enough to be divided among cores."""
    chance = random.Random(5)
    folder.mkdir()
    for number in range(4):
        seconds = [(number * ROWS + place) / 500 - 4 * chance.random() for place in range(ROWS)]
        table = pl.DataFrame(
            {"at": seconds, "k": [chance.randrange(7) for _ in seconds], "v": range(number * ROWS, (number + 1) * ROWS)}
        )
        at = pl.datetime(2026, 1, 1) + pl.duration(microseconds=(pl.col("at") * 1e6).cast(pl.Int64))
        table.with_columns(at=at).write_csv(folder / f"{number}.csv")


def _answers(folder, name, where):
    out, script = folder / name, folder / f"{name}.sql"
    script.write_text(SCRIPT.format(data=folder / "data", out=out))
    command = ["run", str(script), "--once", "--checkpoint", str(folder / f"{name}-state"), *where]
    subprocess.run([sys.executable, "-m", "headrace", *command], check=True, capture_output=True, timeout=240)
    return {query: sorted(pl.read_parquet(out / query / "**/*.parquet").rows()) for query in ("counts", "late")}


@pytest.mark.timeout(900)
def test_one_two_and_four_cores_count_the_same_tuples_and_find_the_same_late(tmp_path):
    _write(tmp_path / "data")
    expected = _answers(tmp_path, "alone", ["--host", "local"])
    assert 1_000 < len(expected["late"]) < 4 * ROWS - 1_000
    for cores in (1, 2, 4):
        answers = _answers(tmp_path, f"cores-{cores}", ["--master", f"local[{cores}]"])
        assert answers == expected, f"with {cores} cores"
