"""Estimates from key samples and measured steps, on stationary input: within a tenth of the truth."""

import math
import random
from collections import Counter

import pytest

from headrace.analysis.joins.join_facts import UNKNOWN_TERM, Shape, Tally, assumed, facts_of
from headrace.operators.multijoin.seen import BoxSeen, KeySample, PortSeen, StepSeen, merged_boxes
from headrace.optimizer.joins.join_graph import Estimates

A, B, C = 1, 2, 4


def hashed(key: int) -> int:
    return random.Random(key).getrandbits(63)


def sample(port, counts, zeros, heavy=()):
    """Return the sample of one input, as an operator takes it."""
    mask = (1 << zeros) - 1
    found = {hashed(key): rows for key, rows in counts.items()}
    return KeySample(
        port,
        0,
        zeros,
        {key: rows for key, rows in found.items() if not key & mask},
        {hashed(key): counts.get(key, 0) for key in heavy},
    )


def box(streams, zeros, taken=1000, steps=None, heavy=()):
    held = [sum(counts.values()) for counts in streams]
    return BoxSeen(
        tree=None,
        ports=[PortSeen(taken, rows, 48 * rows) for rows in held],
        steps=steps or {},
        samples=[sample(port, counts, zeros, heavy) for port, counts in enumerate(streams)],
    )


def truth(streams, ports):
    """Return the share of the cross product of some streams whose keys agree."""
    keys = set.intersection(*(set(streams[port]) for port in ports))
    pairs = sum(math.prod(streams[port][key] for port in ports) for key in keys)
    return pairs / math.prod(sum(streams[port].values()) for port in ports)


def zipf(count, keys, exponent, seed):
    chance = random.Random(seed)
    weights = [1 / (rank + 1) ** exponent for rank in range(keys)]
    return Counter(chance.choices(range(keys), weights, k=count))


@pytest.mark.parametrize(
    ("exponent", "zeros"), [(0.0, 0), (0.0, 3), (0.8, 3), (1.2, 3)], ids=["all", "uniform", "skewed", "very skewed"]
)
def test_selectivities_are_within_a_tenth_of_the_truth(exponent, zeros):
    streams = [zipf(20_000, 4000, exponent, seed) for seed in range(3)]
    heavy = {key for counts in streams for key, _ in counts.most_common(8)}
    facts = facts_of(Shape(3, ((0, 1, 2),)), Tally().after(box(streams, zeros, heavy=heavy), 1.0))
    estimates = Estimates(facts.graph)
    assert facts.is_measured
    for ports in ((0, 1), (1, 2), (0, 2), (0, 1, 2)):
        found = estimates.selectivity(sum(1 << port for port in ports))
        assert found == pytest.approx(truth(streams, ports), rel=0.1), ports


def test_samples_of_buckets_add_up():
    streams = [zipf(20_000, 2000, 0.5, seed) for seed in range(3)]
    parts = [[Counter({k: n for k, n in counts.items() if k % 3 == b}) for counts in streams] for b in range(3)]
    heavy = {key for counts in streams for key, _ in counts.most_common(8)}
    together = merged_boxes({"j": box(part, 1, heavy=heavy)} for part in parts)["j"]
    estimates = Estimates(facts_of(Shape(3, ((0, 1, 2),)), Tally().after(together, 1.0)).graph)
    assert estimates.selectivity(A | B | C) == pytest.approx(truth(streams, (0, 1, 2)), rel=0.1)


def test_rates_rows_and_widths_are_counted():
    streams = [Counter({1: 10, 2: 30}), Counter({1: 5})]
    tally = Tally().after(box(streams, 0, taken=200), 2.0).after(box(streams, 0, taken=300), 3.0)
    first, second = facts_of(Shape(2, ((0, 1),)), tally).graph.streams
    assert (first.rate, first.held, first.width, first.pages) == (100.0, 40.0, 48.0, 0.4)
    assert second.held == 5.0


def test_sizes_of_an_earlier_report_serve_until_the_next_sample():
    streams = [Counter({1: 10}), Counter({1: 5})]
    without = BoxSeen(ports=[PortSeen(10, 20, 0), PortSeen(10, 8, 0)])
    tally = Tally().after(box(streams, 0), 1.0).after(without, 1.0)
    facts = facts_of(Shape(2, ((0, 1),)), tally)
    assert [stream.held for stream in facts.graph.streams] == [20.0, 8.0]
    assert [stream.width for stream in facts.graph.streams] == [48.0, 48.0]
    assert Estimates(facts.graph).selectivity(A | B) == pytest.approx(1.0), "shares are those of the sampled rows"


def test_a_step_corrects_what_samples_say():
    streams = [Counter(dict.fromkeys(range(50), 10)) for _ in range(3)]
    steps = {"0>1": StepSeen(1000, 2500), "0.1>2": StepSeen(2500, 25_000)}
    facts = facts_of(Shape(3, ((0, 1, 2),)), Tally().after(box(streams, 0, steps=steps), 1.0))
    estimates = Estimates(facts.graph)
    assert estimates.matches(A, B) == pytest.approx(2.5), "10 by the sample"
    assert estimates.matches(A | B, C) == pytest.approx(10)
    assert estimates.matches(B, C) == pytest.approx(10), "nobody measured it"


def test_conditions_are_assumed_until_a_step_decides_them_and_then_remembered():
    shape = Shape(3, ((0, 1, 2),), (A | C,))
    streams = [Counter(dict.fromkeys(range(50), 10)) for _ in range(3)]
    unknown = facts_of(shape, Tally().after(box(streams, 0), 1.0))
    assert Estimates(unknown.graph).matches(A, C) == pytest.approx(10 * UNKNOWN_TERM)
    seen = facts_of(shape, Tally().after(box(streams, 0, steps={"0>2": StepSeen(1000, 1000)}), 1.0))
    assert Estimates(seen.graph).matches(A, C) == pytest.approx(1)
    later = facts_of(shape, Tally().after(box(streams, 0), 1.0), seen.learned)
    assert Estimates(later.graph).matches(A, C) == pytest.approx(1)


def test_few_searches_say_nothing():
    streams = [Counter(dict.fromkeys(range(50), 10)) for _ in range(2)]
    facts = facts_of(Shape(2, ((0, 1),)), Tally().after(box(streams, 0, steps={"0>1": StepSeen(5, 0)}), 1.0))
    assert Estimates(facts.graph).matches(A, B) == pytest.approx(10)


def test_an_input_that_holds_nothing_leaves_a_graph_that_can_be_searched():
    facts = facts_of(Shape(2, ((0, 1),)), Tally().after(box([Counter(), Counter({1: 3})], 0), 1.0))
    assert not facts.is_measured
    assert Estimates(facts.graph).held(A | B) < 1e-6
    assert not assumed(Shape(2, ((0, 1),)), (1, 1), (5, 5), 20).is_measured


def test_steps_of_a_grid_count_copies_and_mean_the_same():
    def learned(grid, copies):
        shape = Shape(3, ((0, 1), (1, 2)), grid=grid)
        tally = Tally(
            1.0,
            1,
            tuple(1000 * count for count in copies),
            (1, 1, 1),
            tuple(5000 * count for count in copies),
            (32.0,) * 3,
            steps={"0>1": (1000 * copies[0], 4000), "1>0": (1000, 4000), "0.1>2": (8000, 1600)},
        )
        return facts_of(shape, tally)

    alone, cells = learned((), (1, 1, 1)), learned((2, 3), (3, 1, 2))
    assert cells.graph.streams == alone.graph.streams
    for ports in (A | B, A | B | C):
        assert Estimates(cells.graph).rate(ports) == pytest.approx(Estimates(alone.graph).rate(ports))
    assert Estimates(alone.graph).copies(A) == 1
    assert [Estimates(cells.graph).copies(ports) for ports in (A, B, C, A | C)] == [3, 1, 2, 1]
