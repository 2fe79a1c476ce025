"""What Spark's logs say about the number of partitions."""

import json
from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.hosts.spark.offset_log import partitions_at, unfinished_rescaling


def planned(logs: Path, *partitions: int) -> Path:
    """Write the offsets of micro-batches that have so many partitions."""
    (logs / "offsets").mkdir(parents=True)
    (logs / "commits").mkdir()
    for batch, count in enumerate(partitions):
        settings = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": str(count)}}
        (logs / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(settings)}\n{{}}")
    return logs


def committed(logs: Path, *batches: int) -> None:
    for batch in batches:
        (logs / "commits" / str(batch)).write_text("v1\n{}")


def test_a_micro_batch_with_another_number_of_partitions_that_is_not_committed_is_unfinished(tmp_path: Path) -> None:
    logs = planned(tmp_path, 2, 2, 4)
    assert unfinished_rescaling(logs) is None, "nothing is committed, so nothing could be rescaled"
    committed(logs, 0, 1)
    assert partitions_at(logs, 1) == 2
    assert unfinished_rescaling(logs) == 4
    committed(logs, 2)
    assert unfinished_rescaling(logs) is None


def test_an_ordinary_micro_batch_that_is_not_committed_is_no_rescaling(tmp_path: Path) -> None:
    logs = planned(tmp_path, 2, 2)
    committed(logs, 0)
    assert unfinished_rescaling(logs) is None
    assert unfinished_rescaling(tmp_path / "nothing") is None


def test_an_entry_without_the_number_is_damaged(tmp_path: Path) -> None:
    logs = planned(tmp_path, 2)
    (logs / "offsets" / "0").write_text("v1\n{}\n{}")
    with pytest.raises(HostFault, match="offsets/0 is damaged"):
        partitions_at(logs, 0)
    with pytest.raises(HostFault, match="offsets/7 is missing"):
        partitions_at(logs, 7)
