"""A full disk is an error of the operating system, also where the library that writes hides it in another one."""

import errno
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.storage import files

ROWS = pl.DataFrame({"n": range(100_000)})
WRITERS: dict[str, Callable[[Any], Any]] = {
    "parquet": ROWS.write_parquet,
    "csv": ROWS.write_csv,
    "json": ROWS.write_ndjson,
}


@pytest.mark.parametrize("size", [0, 4, 1000])
@pytest.mark.parametrize("form", WRITERS)
def test_a_full_disk_is_told_by_number_and_file_whatever_writes(tmp_path: Path, form: str, size: int) -> None:
    path = tmp_path / f"part.{form}"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            files.replace_encoded(path, WRITERS[form])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.errno == errno.EFBIG
    assert raised.value.strerror == "File too large"
    assert raised.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_a_writer_stay_as_they_are(tmp_path: Path) -> None:
    def write(file: object) -> None:
        raise ValueError("no column 'n'")

    with pytest.raises(ValueError, match="no column 'n'"):
        files.replace_encoded(tmp_path / "part", write)
