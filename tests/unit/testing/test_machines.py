"""Machines that share partitions in virtual time: both ways to move them are exact, and speak as published."""

from __future__ import annotations

import pytest

from headrace.experiments.plans.migration_length import PAIRS
from headrace.model.join_tree import Tree, parse_tree
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.testing.simulation.machine import Shared
from headrace.testing.simulation.machines import Cluster, Shares, Way, share_out

LEFT, RIGHT = (parse_tree(text, "ABC") for text in ("((A B) C)", "(A (B C))"))
SETTING = Shared((12.0, 12.0, 12.0), 60, 3.0, partitions=20, machines=3)
PTLB = [
    "DM>S ComputePartitionsToMove", "S>DM PartitionsToMove", "DM>S,K DuplicatePartitions", "K>S CheckOld",
    "S>DM AllOldPurged", "DM>S,K DeletePartitions", "K>S DeletePartitions", "S>DM PartitionDeleted",
]  # fmt: skip
MSLB = [
    "DM>S ComputePartitionsToMove", "S>DM PartitionsToMove", "DM>S,K DeactivatePartitions", "K>DM MinTimestamp",
    "DM>K SyncTime", "K>S EndOfPartition", "S>DM Deactivated", "DM>S SendPartitions", "S>R ReceivePartitions",
    "R>DM Received", "DM>K ReactivatePartitions",
]  # fmt: skip


def switching(time: float, seen: BoxSeen, tick: float) -> tuple[Tree, How, int] | None:
    """Change the tree of a machine once, before its partitions move."""
    return (RIGHT, "moving", 0) if seen.tree == LEFT else None


def run(way: Way, *, capacity: float = 1e9, network: float = 500.0) -> Shares:
    """Run machines of which the first joins by another tree; nothing comes in the last seconds."""
    cluster = Cluster(
        SETTING, LEFT, costs=PAIRS, capacity=capacity, memory=108.0, way=way,
        local=[switching, None, None], network=network, looks_from=5.0,
    )  # fmt: skip
    return share_out(cluster, SETTING, 24.0, lasts=18.0, tick=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "messages"), [("PTLB", PTLB), ("MSLB", MSLB)])
def test_moves_between_machines_with_different_trees_lose_and_repeat_nothing(way: Way, messages: list[str]) -> None:
    alone, moved = run(None), run(way)
    assert alone.trees[0] == {LEFT, RIGHT}
    assert alone.trees[1] == {LEFT}
    assert alone.moments[-1].out == moved.moments[-1].out > 100
    assert alone.moments[-1].waiting == moved.moments[-1].waiting == 0
    assert moved.moves
    assert moved.at(18.0).first_share < alone.at(18.0).first_share
    told = [m for number, m in enumerate(moved.moves[0].messages) if m not in moved.moves[0].messages[:number]]
    assert told == messages, "several receivers are told the same"
    assert moved.moves[0].rows
    for move in moved.moves:
        if way == "PTLB" and move.ended < 18:
            assert SETTING.window <= move.ended - move.began <= SETTING.window + 1


@pytest.mark.slow
def test_a_network_or_a_sender_that_is_slow_makes_moves_longer_and_changes_no_result() -> None:
    fast, slow = run("MSLB"), run("MSLB", network=20.0)
    first, second = (shares.moves[0].ended - shares.moves[0].began for shares in (fast, slow))
    assert second > first
    assert fast.moments[-1].out == slow.moments[-1].out
    busy = run("PTLB", capacity=300.0)
    assert busy.moves[0].ended - busy.moves[0].began > SETTING.window + 1
