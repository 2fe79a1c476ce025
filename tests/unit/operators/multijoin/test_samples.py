"""Samples of keys: those that are heavy in one input are counted in all, and chunks are looked at once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headrace.operators.multijoin import samples
from headrace.operators.multijoin.operator import MultiJoinOperator
from headrace.operators.multijoin.seen import BoxSeen, merged_boxes
from headrace.testing.migrations import Run, Shape, Tuple, join_of


def tuples(port: int, keys: list[int]) -> list[Tuple]:
    return [Tuple(port, 1, {"id": i, "k": key, "j": key % 7, "s": str(key)}) for i, key in enumerate(keys)]


def test_a_key_that_is_heavy_in_one_input_only_is_counted_in_all() -> None:
    run = Run(join_of("one key", [50, 50, 50]))
    for port, heavy in enumerate((5000, 5001, 5002)):
        run.push(port, tuples(port, [heavy] * 300 + list(range(2000)) + [5000]))
    seen = run.operator.seen(sample=True)
    assert all(sample.zeros > 0 for sample in seen.samples), "not all keys are in the sample"
    counts = [Counter(sample.heaviest.values()) for sample in seen.samples]
    assert counts[0][301] == 1
    assert all(counts[port][300] == 1 for port in (1, 2))
    assert all(counts[port][0] >= 1 for port in (1, 2)), "the heavy keys of the others, of which it has no row"
    assert len({tuple(sorted(sample.heaviest)) for sample in seen.samples}) == 1, "the same keys of all inputs"


@pytest.mark.parametrize("shape", ["one key", "two keys", "text"])
def test_samples_of_a_state_that_grows_are_those_of_the_same_state_at_once(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    spec = join_of(shape, [50, 50, 50])
    run = Run(spec)
    for _ in range(12):
        port = chance.randrange(3)
        run.push(port, tuples(port, [chance.randrange(900) for _ in range(400)]))
        grown = run.operator.seen(sample=True).samples
    fresh = MultiJoinOperator(spec)
    state = run.operator.state()
    fresh.restore({name: chunk.clone() for name, chunk in state.items()})
    assert fresh.seen(sample=True).samples == grown
    again = MultiJoinOperator(spec)
    again.restore(state)  # as a large state in every micro-batch, with the same chunks
    monkeypatch.setattr(samples, "_part_of", None)
    assert again.seen(sample=True).samples == grown, "what is in chunks is known"
    assert max(len(sample.counts) for sample in grown) <= samples.MOST_KEYS


def test_a_sample_of_some_buckets_only_is_none() -> None:
    run = Run(join_of("one key", [50, 50, 50]))
    run.push(0, tuples(0, [1, 2]))
    sampled, other = run.operator.seen(sample=True), BoxSeen(ports=run.operator.seen(sample=False).ports)
    assert merged_boxes([{"j": sampled}, {"j": other}])["j"].samples == []
    assert merged_boxes([{"j": sampled}, {"j": sampled}])["j"].samples != []
