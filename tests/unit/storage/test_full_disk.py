"""A full disk is an error of the operating system, also where the library that writes hides it in another one."""

import errno
from pathlib import Path

import polars as pl
import pytest

from headrace.storage import files

FULL = Path("/dev/full")
ROWS = pl.DataFrame({"n": range(100_000)})
WRITERS = {"parquet": ROWS.write_parquet, "csv": ROWS.write_csv, "json": ROWS.write_ndjson}


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("form", WRITERS)
def test_a_full_disk_is_told_by_number_and_file_whatever_writes(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"part.{form}"

    def write(file: object) -> None:
        with FULL.open("wb") as full:
            WRITERS[form](full)

    with pytest.raises(OSError, match="No space left") as raised:
        files.replace_by(path, write)
    assert raised.value.errno == errno.ENOSPC
    assert raised.value.strerror == "No space left on device"
    assert raised.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_a_writer_stay_as_they_are(tmp_path: Path) -> None:
    def write(file: object) -> None:
        raise ValueError("no column 'n'")

    with pytest.raises(ValueError, match="no column 'n'"):
        files.replace_by(tmp_path / "part", write)
