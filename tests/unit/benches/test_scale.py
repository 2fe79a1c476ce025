"""What the bench of clusters computes from times of micro-batches and stages."""

import pytest
from benches.parts.scaling import alone, slope


@pytest.mark.parametrize(
    ("stages", "milliseconds"),
    [
        ([], 100),
        ([(10, 20), (20, 50)], 60),
        ([(10, 30), (20, 50), (25, 40)], 60),
        ([(-50, 10), (90, 150)], 80),
        ([(-50, 150)], 0),
        ([(200, 300)], 100),
    ],
)
def test_the_driver_is_alone_while_no_stage_runs(stages, milliseconds):
    assert alone(0, 100, [(*stage, 0) for stage in stages]) == milliseconds


def test_the_slope_of_a_line_is_found():
    assert slope([(2, 12.0), (16, 19.0), (64, 43.0)]) == pytest.approx(0.5)
