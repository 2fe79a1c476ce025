from pathlib import Path

from headrace.experiments.drawing import draw
from headrace.experiments.experiment import Panel, Series

PANEL = Panel(
    "Latency",
    "rate per second",
    "ms",
    (
        Series("ours", ((1, 10), (100, 1))),
        Series("published", ((1, 11), (100, 0.9)), "marks", "ours"),
        Series("theory", ((1, 10), (100, 0)), "dashed", "ours"),
        Series("without", ((0, 50),), "level"),
    ),
    log_x=True,
    log_y=True,
)


def test_a_png_and_an_svg_are_written(tmp_path: Path) -> None:
    png, svg = draw("waiting", "Waiting", (PANEL,), tmp_path / "new")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in svg.read_text()
    assert (png.name, svg.name) == ("waiting.png", "waiting.svg")


def test_the_same_numbers_give_the_same_svg(tmp_path: Path) -> None:
    one, other = (draw("waiting", "Waiting", (PANEL,), tmp_path / folder)[1].read_bytes() for folder in "ab")
    assert one == other
    assert b"<dc:date>" not in one


def test_bars_stand_side_by_side_and_published_values_on_them(tmp_path: Path) -> None:
    bars = (
        Series("ours", ((0, 3), (1, 4)), "bars"),
        Series("theirs", ((0, 2), (1, 5)), "bars"),
        Series("paper", ((0, 2.9),), "marks", "ours"),
    )
    panel = Panel("Saved", "reach", "%", bars, ticks=("results", "sources"))
    other = Panel("Saved", "reach", "%", bars[:1], ticks=("results", "sources"))
    one, two = (
        draw("bars", "Bars", (given,), tmp_path / given.series[-1].name)[1].read_text() for given in (panel, other)
    )
    assert one != two
    assert "</svg>" in one
