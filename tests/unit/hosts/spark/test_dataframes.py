"""Streaming DataFrames as streams; with Spark they are tried in tests/spark."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headrace.errors import SourceFault
from headrace.hosts.spark.dataframes import create_stream_text


@pytest.mark.parametrize("frame", [None, pl.DataFrame({"a": [1]})])
def test_what_is_no_dataframe_of_spark_is_refused_with_a_hint(frame: Any) -> None:
    with pytest.raises(SourceFault, match="which is no DataFrame of Spark") as refused:
        create_stream_text("s", frame, None, None)
    assert refused.value.hint
