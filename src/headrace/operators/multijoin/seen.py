"""What a join of several inputs counts: the measurements from which plans are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.join_tree import Tree

#: How a join comes to another tree: all missing states at once, in portions, or by both trees side by side.
How: TypeAlias = Literal["moving", "stepwise", "parallel"]


class PortSeen(Struct, frozen=True, array_like=True):
    """One input: the tuples taken since the last report, the rows kept now, and their bytes."""

    taken: int = 0
    held: int = 0
    bytes: int = 0


class StepSeen(Struct, frozen=True, array_like=True):
    """Rows that searched a state since the last report, and rows that came out of it."""

    searched: int = 0
    matched: int = 0


class ConditionSeen(Struct, frozen=True, array_like=True):
    """Conditions on one input since the last report: rows tested, rows that passed, and the time."""

    tested: int = 0
    passed: int = 0
    busy_ns: int = 0


class KeySample(Struct, frozen=True, array_like=True):
    """The rows kept of some keys, by a hash of the key; samples of all inputs have the same keys.

    A key is in the sample if the last `zeros` bits of its hash are zero. `heaviest` are the keys with most rows in this
    or another input of the class, whether they are in the sample or not.
    """

    port: int
    key_class: int
    zeros: int = 0
    counts: dict[int, int] = {}
    heaviest: dict[int, int] = {}


class MigrationSeen(Struct, frozen=True, array_like=True):
    """The change of plan that is under way: its number, how it is done, and the rows still to be built (estimated)."""

    number: int
    how: How
    left: int = 0


class BoxSeen(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one join of several inputs did since the last report.

    All but the times are counts, so a repeated micro-batch reports the same. A step is named by the ports of the rows
    that search and those of the state that is searched: '0.1>2'. `number` is that of the last change of plan that the
    join has taken, `rows` those of intermediate states by their ports. `conditions` are those that may be tested late,
    by their ports.
    """

    tree: Tree | None = None
    number: int = 0
    ports: list[PortSeen] = []
    steps: dict[str, StepSeen] = {}
    rows: dict[str, int] = {}
    stored: int = 0
    built: int = 0  # for a change of plan
    purged: int = 0
    out: int = 0
    busy_ns: int = 0
    migration: MigrationSeen | None = None
    samples: list[KeySample] = []
    conditions: dict[int, ConditionSeen] = {}


def merged_boxes(reports: Iterable[Mapping[str, BoxSeen]]) -> dict[str, BoxSeen]:
    """Return what the same joins in several buckets did together."""
    found: dict[str, list[BoxSeen]] = {}
    for name, box in (item for boxes in reports for item in boxes.items()):
        found.setdefault(name, []).append(box)
    return {name: boxes[0] if len(boxes) == 1 else _merged(boxes) for name, boxes in found.items()}


def _merged(boxes: Sequence[BoxSeen]) -> BoxSeen:
    least = min(boxes, key=lambda box: box.number)  # a change is through when all have taken it
    steps: dict[str, StepSeen] = {}
    rows: dict[str, int] = {}
    for box in boxes:
        for name, step in box.steps.items():
            before = steps.get(name, StepSeen())
            steps[name] = StepSeen(before.searched + step.searched, before.matched + step.matched)
        for name, count in box.rows.items():
            rows[name] = rows.get(name, 0) + count
    columns = zip(*(box.ports for box in boxes), strict=True)
    ports = [PortSeen(*map(sum, zip(*((p.taken, p.held, p.bytes) for p in port), strict=True))) for port in columns]
    moving = [box.migration for box in boxes if box.migration is not None]
    newest = max(moving, key=lambda migration: migration.number, default=None)
    return BoxSeen(
        tree=least.tree,
        number=least.number,
        ports=ports,
        steps=steps,
        rows=rows,
        stored=sum(box.stored for box in boxes),
        built=sum(box.built for box in boxes),
        purged=sum(box.purged for box in boxes),
        out=sum(box.out for box in boxes),
        busy_ns=sum(box.busy_ns for box in boxes),
        migration=None if newest is None else replace(newest, left=sum(migration.left for migration in moving)),
        samples=_merged_samples([sample for box in boxes for sample in box.samples])
        if all(box.samples for box in boxes)
        else [],  # of some buckets only: a bucket that has just begun samples alone
        conditions=_merged_conditions(boxes),
    )


def _merged_conditions(boxes: Sequence[BoxSeen]) -> dict[int, ConditionSeen]:
    total: dict[int, ConditionSeen] = {}
    for port, seen in (item for box in boxes for item in box.conditions.items()):
        known = total.get(port, ConditionSeen())
        total[port] = ConditionSeen(
            known.tested + seen.tested, known.passed + seen.passed, known.busy_ns + seen.busy_ns
        )
    return total


def _merged_samples(samples: Sequence[KeySample]) -> list[KeySample]:
    """Add up samples of the same input and class, over the keys that are in all of them."""
    zeros: dict[int, int] = {}
    for sample in samples:
        zeros[sample.key_class] = max(sample.zeros, zeros.get(sample.key_class, 0))
    total: dict[tuple[int, int], KeySample] = {}
    for sample in samples:
        bits = zeros[sample.key_class]
        key = sample.port, sample.key_class
        before = total.get(key, KeySample(*key, bits))
        kept = {hashed: count for hashed, count in sample.counts.items() if not hashed & ((1 << bits) - 1)}
        total[key] = replace(
            before, counts=_added(before.counts, kept), heaviest=_added(before.heaviest, sample.heaviest)
        )
    return list(total.values())


def _added(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *(key for key in other if key not in one))}
