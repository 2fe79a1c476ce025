"""How often something is looked at."""

from __future__ import annotations

from headrace.control.sampling import Sampling


def after(*values: float) -> Sampling:
    found = Sampling(500, 8000, 2000)
    for value in values:
        found = found.after(value)
    return found


def test_nothing_is_concluded_from_few_values() -> None:
    assert after(1.0, 9.0, 1.0).period == 2000


def test_what_hardly_changes_is_looked_at_ever_more_seldom_up_to_a_limit() -> None:
    assert [after(*[10.0] * count).period for count in (4, 5, 6, 9)] == [4000, 8000, 8000, 8000]


def test_what_changes_much_is_looked_at_ever_more_often_up_to_a_limit() -> None:
    assert [after(*[1.0, 9.0] * count).period for count in (2, 3, 5)] == [1000, 500, 500]
