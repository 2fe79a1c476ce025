"""What became of the records of a run: read, late, bad, shed, delivered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import typer

from headrace.engine.statistics import Statistics

Loss: TypeAlias = Literal["bad", "late", "shed"]


@dataclass(frozen=True)
class LossLimit:
    """How many records may be lost in one way: a number, or a percentage of those that came."""

    kind: Loss
    most: float
    is_percentage: bool

    @classmethod
    def parse(cls, text: str) -> LossLimit:
        """Return the limit that `bad=10` or `late=1%` means."""
        match = re.fullmatch(r"(\w+)=(\d+(?:\.\d+)?)(%?)", text.strip())
        if match is None or match[1] not in get_args(Loss):
            raise typer.BadParameter(f"--fail-on {text}: give bad, late or shed and a number, such as bad=0 or late=1%")
        return cls(cast(Loss, match[1]), float(match[2]), bool(match[3]))

    def is_exceeded(self, lost: int, came: int) -> bool:
        """Return whether more were lost than allowed, of so many that came."""
        return lost > (self.most * came / 100 if self.is_percentage else self.most)

    def __str__(self) -> str:
        return f"{self.kind}={self.most:g}{'%' if self.is_percentage else ''}"


def summary(statistics: Statistics) -> Iterator[str]:
    """Yield a line for each stream and query."""
    for name, stream in sorted(statistics.streams.items()):
        parts = [f"{stream.tuples:,} tuples read"]
        parts += [f"{stream.late:,} late (in {name}.late)"] if stream.late else []
        parts += [f"{stream.bad:,} bad (in {name}.bad)"] if stream.bad else []
        parts += [f"{stream.skipped:,} not needed"] if stream.skipped else []
        yield f"stream {name}: {', '.join(parts)}"
    for name, query in sorted(statistics.queries.items()):
        shed = f", {query.shed:,} tuples shed" if query.shed else ""
        yield f"query {name}: {query.results:,} result{'' if query.results == 1 else 's'}{shed}"


def losses(statistics: Statistics, limits: Sequence[LossLimit]) -> Iterator[str]:
    """Yield what is wrong: a stream of which no record could be read, and limits that are exceeded."""
    for name, stream in sorted(statistics.streams.items()):
        came = stream.tuples + stream.late + stream.bad
        if came and stream.bad == came:
            yield (
                f"all {came:,} records of stream {name} are bad: "
                f"do columns and format fit the data? (SELECT * FROM {name}.bad shows the reasons)"
            )
        for limit in limits:
            lost = {"bad": stream.bad, "late": stream.late}.get(limit.kind, 0)
            if limit.is_exceeded(lost, came):
                yield f"stream {name}: {lost:,} of {came:,} records are {limit.kind} (--fail-on {limit})"
    read = sum(stream.tuples for stream in statistics.streams.values())
    for name, query in sorted(statistics.queries.items()):
        for limit in limits:
            if limit.kind == "shed" and limit.is_exceeded(query.shed, read):
                yield f"query {name}: {query.shed:,} of {read:,} tuples were shed (--fail-on {limit})"
