"""Whether the files of a sink hold the rows that they should, each as often as it should be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb


@dataclass(frozen=True, slots=True)
class Difference:
    """How many rows are expected, and how many of them are missing, there too often, or not expected at all."""

    expected: int
    lost: int
    repeated: int
    wrong: int

    @property
    def is_none(self) -> bool:
        return not (self.lost or self.repeated or self.wrong)


def compare(connection: duckdb.DuckDBPyConnection, reference: str, files: Sequence[Path]) -> Difference:
    """Compare the rows in files, which are all of one format, with those of a query, as multisets."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE expected AS {reference}")
    columns = {name: str(type_) for name, type_, *_ in connection.execute("DESCRIBE expected").fetchall()}
    casts = ", ".join(f'CAST("{name}" AS {type_}) AS "{name}"' for name, type_ in columns.items())
    connection.execute("CREATE OR REPLACE TEMP TABLE written AS FROM expected LIMIT 0")
    if files:
        connection.execute(f"INSERT INTO written SELECT {casts} FROM {_reader(files, columns)}")
    names = ", ".join(f'"{name}"' for name in columns)
    counts = f"""SELECT sum(due) AS due, sum(there) AS there FROM (
      SELECT *, 1 AS due, 0 AS there FROM expected UNION ALL SELECT *, 0, 1 FROM written) GROUP BY {names}"""
    row = connection.execute(
        f"""SELECT sum(due), sum(greatest(due - there, 0)), sum(greatest(there - due, 0)) FILTER (due > 0),
          sum(there) FILTER (due = 0) FROM ({counts})"""
    ).fetchone()
    assert row is not None
    return Difference(*(int(number or 0) for number in row))


def _reader(files: Sequence[Path], columns: dict[str, str]) -> str:
    paths = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
    match files[0].suffix:
        case ".parquet" | "":  # Flink's names have no ending
            return f"read_parquet([{paths}])"
        case ".csv":
            texts = ", ".join(f"'{name}': 'VARCHAR'" for name in columns)
            return f"read_csv([{paths}], header = true, delim = ',', quote = '\"', columns = {{{texts}}})"
        case _:
            texts = ", ".join(f"'{name}': 'VARCHAR'" for name in columns)
            return f"read_json([{paths}], format = 'newline_delimited', columns = {{{texts}}})"
