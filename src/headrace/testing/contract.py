"""The contracts of operators and schedulers, checked by running a script of elements in many ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Scheduler, Turn
from headrace.engine.scheduling.units import Stakes
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.operators.capabilities import due_of, held_by
from headrace.operators.operator import Operator, State
from headrace.operators.spec import Spec
from headrace.testing.oracle.rows import Row, rounded, rows_of
from headrace.testing.simulation.units import TupleArrival, UnitSimulation, UnitTrace, line, part_of

Script: TypeAlias = Sequence[tuple[int, Element]]


def check_operator(
    spec: Spec, script: Script, *, ports: int | None = None, sizes: Sequence[int] = (1, 2, 7, 10_000)
) -> list[Row]:
    """Assert that an operator keeps its promises on a script; return its results.

    Ports that the script leaves open are ended. Then: the same input gives the same bytes, not only the same rows;
    punctuations never fall and no row is below one; a saved and restored operator goes on as if nothing had happened,
    at every position; a chunk of state that did not change is the same object; results do not depend on how tuples are
    cut into pages of `sizes`; what a punctuation short of the end completes was due by it.
    """
    count = ports if ports is not None else max((port for port, _ in script), default=0) + 1
    whole = [*script, *((port, Punctuation(END)) for port in range(count) if (port, Punctuation(END)) not in script)]
    straight = _run(spec.build(), whole)
    assert _encoded(_run(spec.build(), whole)) == _encoded(straight), "the same input gave other bytes"
    _check_marks(straight)
    expected = multiset(straight)
    for position in range(len(whole) + 1):
        resumed = _run_with_restart(spec, whole, position)
        _check_marks(resumed)
        _check_same(multiset(resumed), expected, f"restored after element {position} of {len(whole)}")
        assert _last_bound(resumed) == _last_bound(straight), (
            f"restored after element {position}: another last punctuation"
        )
    for size in sizes:
        recut = _run(spec.build(), cut(whole, size))
        _check_marks(recut)
        _check_same(multiset(recut), expected, f"pages of {size}")
    return [
        row for element in straight if isinstance(element, Page) for row in rows_of(element.rows.iter_rows(named=True))
    ]


def check_scheduler(scheduler: Scheduler, *, period: float = 50e6) -> None:
    """Assert that a scheduler is pure, chooses runnable units, and starves none if the oldest runs every `period` ns.

    The order in which candidates are listed is nobody's priority, and two runs of the same input are the same run.
    """
    for candidates, turn in _situations(scheduler):
        choice = scheduler.choose(candidates, turn)
        assert choice.unit in {candidate.unit for candidate in candidates}, f"chose {choice.unit}, which cannot run"
        assert scheduler.choose(candidates, turn) == choice, "chose differently when asked again"
        assert scheduler.choose(candidates[::-1], turn) == choice, "the order of the candidates decided"
    for fairness in (Fairness(period), Fairness(period, dynamic=True)):
        first, again = (_overloaded(scheduler, fairness) for _ in range(2))
        assert first.results == again.results, "the same input gave another run"
        slow = [time for time, name, _ in first.results if name == "slow"]
        assert slow, "the path that counts least was never served while others had work"
        longest = max(after - before for before, after in pairwise((0.0, *slow, _SPAN)))
        assert longest <= _SPAN / (2 if scheduler.gated else 4), f"the path that counts least waited {longest:.2f} s"


#: Seconds for which more comes in than can be served.
_SPAN = 2.0


def _situations(scheduler: Scheduler) -> Iterator[tuple[list[Candidate], Turn]]:
    """Yield candidates of the scheduler's kinds with all sorts of numbers, many of them equal."""
    rng = np.random.default_rng(7)
    for size in range(1, 41):
        candidates = []
        for number in sorted(rng.choice(60, size, replace=False).tolist()):
            queued, oldest = int(rng.integers(1, 5)), int(rng.integers(0, 4))
            capacity, release, share, weight = (float(rng.choice([0.01, 0.5, 1.0, 3.0])) for _ in range(4))
            kind = scheduler.kinds[number % len(scheduler.kinds)]
            deadline = None if rng.random() < 0.5 else oldest + int(rng.integers(0, 3))
            candidates.append(
                Candidate(
                    number,
                    kind,
                    queued,
                    queued * 10.0,
                    oldest,
                    capacity,
                    release,
                    share,
                    weight,
                    deadline,
                    int(rng.integers(1, 4)),
                )
            )
        yield (
            candidates,
            Turn(
                int(rng.integers(-1, 60)),
                int(rng.integers(0, 3)),
                bool(rng.random() < 0.5),
                float(rng.integers(0, 100)),
            ),
        )


def _overloaded(scheduler: Scheduler, fairness: Fairness) -> UnitTrace:
    """Build a fast path with more input than it can process, beside a slow one without promise or weight."""
    costs = {"quick": Cost(1e6, 1.0, 1.0, 1.0), "slow": Cost(3e6, 1.0, 1.0, 1.0)}
    stakes = {"quick": Stakes(10.0, 1000), "slow": Stakes(0.1)}
    part = part_of([*line("quick"), *line("slow")], costs, stakes)
    arrivals = [TupleArrival(number * 8e-4, "quick") for number in range(round(_SPAN / 8e-4))]
    arrivals += [TupleArrival(number * 0.01, "slow") for number in range(round(_SPAN / 0.01))]
    return UnitSimulation(part, scheduler, fairness).run(arrivals, until=_SPAN)


def cut(script: Script, size: int) -> list[tuple[int, Element]]:
    """Return the same tuples in the same order in pages of at most `size`; join neighboring pages of a port first."""
    joined: list[tuple[int, Element]] = []
    for port, element in script:
        if joined and isinstance(element, Page):
            last_port, last = joined[-1]
            if last_port == port and isinstance(last, Page):
                joined[-1] = (port, Page(pl.concat([last.rows, element.rows])))
                continue
        joined.append((port, element))
    return [(port, piece) for port, element in joined for piece in _pieces(element, size)]


def multiset(elements: Iterable[Element]) -> Counter[Any]:
    """Return the rows of all pages with all columns, hidden ones too; floats rounded to 9 significant digits."""
    rows = (row for element in elements if isinstance(element, Page) for row in element.rows.iter_rows(named=True))
    return Counter(tuple((name, rounded(row[name])) for name in sorted(row)) for row in rows)


def _pieces(element: Element, size: int) -> list[Element]:
    if not isinstance(element, Page):
        return [element]
    return [Page(element.rows[start : start + size]) for start in range(0, len(element), size)]


def _run(operator: Operator, script: Script) -> list[Element]:
    emitted: list[Element] = []
    before: State = dict(operator.state())
    for port, element in script:
        due = due_of(operator)
        given = _step(operator, port, element)
        if (
            isinstance(element, Punctuation)
            and element.bound < END
            and any(isinstance(out, Page) and len(out) for out in given)
        ):
            assert due is not None, f"punctuation {element.bound} completed something, but nothing was due"
            assert due <= element.bound, f"punctuation {element.bound} completed something that was due at {due} only"
        emitted += given
        after = dict(operator.state())
        _check_chunks(before, after)
        before = after
    return emitted


def _run_with_restart(spec: Spec, script: Script, position: int) -> list[Element]:
    first = spec.build()
    emitted = [out for port, element in script[:position] for out in _step(first, port, element)]
    second = spec.build()
    # through bytes, as a state store would
    second.restore({name: Page.decode(Page(chunk).encode()).rows for name, chunk in first.state().items()})
    assert held_by(second) == held_by(first), (
        f"restored after element {position}: holds {held_by(second)} tuples, not {held_by(first)}"
    )
    return emitted + [out for port, element in script[position:] for out in _step(second, port, element)]


def _step(operator: Operator, port: int, element: Element) -> list[Element]:
    return list(operator.on_element(port, element))


def _encoded(elements: Iterable[Element]) -> list[bytes | Punctuation]:
    return [element if isinstance(element, Punctuation) else Page(element.rows).encode() for element in elements]


def _check_marks(emitted: Sequence[Element]) -> None:
    bound, completions = BEGIN, list[Completion]()
    for element in emitted:
        match element:
            case Punctuation():
                assert element.bound >= bound, f"punctuation falls from {bound} to {element.bound}"
                bound = element.bound
            case Page():
                early = element.rows.filter(pl.col(TS) < bound)[TS].to_list()
                assert not early, f"rows at {early} come after punctuation {bound}"
                for ends in completions:
                    known = [name for name in ends.keys if name in element.rows.columns]
                    late = element.rows.join(ends.rows, on=known, suffix=".end", nulls_equal=True)
                    late = late.filter(pl.col(TS) < pl.col(f"{TS}.end"))
                    assert not late.height, f"rows come after the end of their keys: {late}"
            case Completion():
                completions.append(element)


def _check_chunks(before: State, after: State) -> None:
    for name, chunk in after.items():
        old = before.get(name)
        if old is not None and old is not chunk:
            same = old.schema == chunk.schema and old.height > 0 and old.equals(chunk)
            assert not same, (
                f"chunk {name!r} of the state did not change but is a new object, so it would be written again"
            )


def _check_same(actual: Counter[Any], expected: Counter[Any], when: str) -> None:
    assert actual == expected, f"{when}: missing {dict(expected - actual)}, too many {dict(actual - expected)}"


def _last_bound(emitted: Sequence[Element]) -> int:
    return max((element.bound for element in emitted if isinstance(element, Punctuation)), default=BEGIN)


def run_join(spec: Spec, steps: Iterable[tuple[int, Page | int]], *, restarts: bool) -> Counter[tuple[Any, ...]]:
    """Run pages and bounds of two ports through a join; return its rows, with all columns.

    Assert that bounds rise and hold, that chunks of state which did not change are the same objects, and that nothing
    is held when both inputs have ended. With `restarts`, a new operator goes on from the state after every step.
    """
    operator, bound = spec.build(), BEGIN
    rows: Counter[tuple[Any, ...]] = Counter()
    before: State = {}
    for port, step in steps:
        for element in _given(operator, port, step):
            if isinstance(element, Punctuation):
                assert element.bound > bound
                bound = element.bound
            else:
                assert element.rows.height > 0
                assert all(ts >= bound for ts in element.rows[TS])
                rows.update(element.rows.rows())
        after = operator.state()
        kept = [name for name in before if name in after and after[name].equals(before[name])]
        assert all(after[name] is before[name] for name in kept)
        before = after
        if restarts:
            operator = spec.build()
            before = {name: Page.decode(Page(frame).encode()).rows for name, frame in after.items()}
            operator.restore(before)
            again = operator.state()
            assert again.keys() == before.keys()
            assert all(again[name] is before[name] for name in before)
    assert bound == END
    assert held_by(operator) == 0
    assert set(operator.state()) == {"bounds"}
    return rows


def _given(operator: Operator, port: int, step: Page | int) -> list[Element]:
    return list(
        operator.on_page(port, step) if isinstance(step, Page) else operator.on_punctuation(port, Punctuation(step))
    )
