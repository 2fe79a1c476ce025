"""Joins of several inputs: every tree gives the same, whatever the pages, and a tree can change at any time."""

from __future__ import annotations

import random
from itertools import product

import pytest
from msgspec.structs import replace

from headrace.model.join_tree import Branch, Tree, flat, left_deep, with_late
from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.patterns.match import equal
from headrace.model.patterns.pattern import pattern
from headrace.operators.multijoin.operator import MultiJoinOperator
from headrace.operators.multijoin.seen import ConditionSeen, How, PortSeen, StepSeen
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.operator import Operator
from headrace.testing.contract import check_operator
from headrace.testing.migrations import (
    SCHEMA,
    SHAPES,
    STRATEGIES,
    TREES,
    K,
    NeighborPurge,
    NeighborPurgeOfJoined,
    NoEpochs,
    NoRecomputing,
    NoRootRule,
    Run,
    Shape,
    TrustsStoredRows,
    Tuple,
    combinations,
    join_of,
    random_tuples,
    try_changes,
)


class Planted(MultiJoin, frozen=True, tag="planted"):
    """A join that begins with another tree than the default."""

    tree: Tree = 0

    def build(self) -> Operator:
        operator = MultiJoinOperator(self)
        operator.use(1, self.tree, "moving", 0)
        return operator


def planted(spec: MultiJoin, tree: Tree) -> Planted:
    parts = (spec.inputs, spec.names, spec.extents, spec.classes, spec.terms, spec.expiry, spec.labels, spec.grid)
    return Planted(*parts, tree)


def script_of(spec: MultiJoin, seed: int, count: int = 8) -> tuple[list[tuple[int, Element]], list[Tuple]]:
    chance, ids = random.Random(seed), iter(range(10**6))
    script: list[tuple[int, Element]] = []
    taken: list[Tuple] = []
    for now in range(0, 2 * count, 2):
        port = chance.randrange(len(spec.inputs))
        rows = random_tuples(chance, ids, port, [now, now + 1, now])
        taken += rows
        script.append((port, page_of(SCHEMA, [t.values for t in rows], [t.ts for t in rows])))
        script.append((chance.randrange(len(spec.inputs)), Punctuation(now - chance.choice((0, 3)))))
    kept: list[tuple[int, Element]] = []
    for i, (port, element) in enumerate(script):  # a bound holds for all that follows
        if isinstance(element, Punctuation):
            rest = [t.ts for t in taken[3 * (i // 2 + 1) :] if t.port == port]
            element = Punctuation(min([element.bound, *rest]))
        kept.append((port, element))
    return kept, taken


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_an_operator_keeps_its_contract(shape: Shape) -> None:
    windows: list[list[int | None]] = [[5, 2, 8], [3, None, 0, 4]]
    for seed, spans in enumerate(windows):
        spec = join_of(shape, spans)
        tree = random.Random(seed).choice(TREES[len(spans)])
        script, taken = script_of(spec, seed, 6)
        rows = check_operator(planted(spec, tree), script, sizes=(1, 100))
        found = [tuple(row.values[f"id{port}"] for port in range(len(spans))) for row in rows]
        assert sorted(found) == sorted(combinations(spec, taken).elements())


@pytest.mark.parametrize("count", [3, 4])
def test_every_tree_gives_all_combinations(count: int) -> None:
    results = 0
    for number, tree in enumerate(TREES[count]):
        spec = join_of(SHAPES[number % len(SHAPES)], [6, 3, None, 8][:count])
        run = Run(spec)
        run.change(tree, "moving", 0)
        script, taken = script_of(spec, number, 10)
        for port, element in script:
            if isinstance(element, Page):
                run.take(run.operator.on_page(port, element))
            else:
                run.bound(port, element.bound)
        run.taken = taken
        assert run.difference() == (0, 0), (tree, spec.classes)
        results += run.emitted.total()
    assert results > 5


CASES = list(product((True, False), repeat=4))  # which of a, b, c, d come before the change


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("forward", [True, False])
def test_the_sixteen_cases_of_old_and_new_tuples(how: How, forward: bool) -> None:
    """One tuple of each stream, before or after the change from ((ab)c)d to a((bc)d), or back."""
    trees = left_deep([0, 1, 2, 3]), Branch((0, Branch((Branch((1, 2)), 3))))
    old, new = trees if forward else trees[::-1]
    for case in CASES:
        run = Run(join_of("one key", [40] * 4))
        run.change(old, "moving", 0)
        parts = [
            Tuple(port, 100 if is_old else 110, {"id": port, "k": 1, "j": 1, "s": "x"})
            for port, is_old in enumerate(case)
        ]
        for part in (part for part, is_old in zip(parts, case, strict=True) if is_old):
            run.push(part.port, [part])
        run.change(new, how, 1)
        for part in (part for part, is_old in zip(parts, case, strict=True) if not is_old):
            run.push(part.port, [part])
            run.operator.advance()
        assert run.difference() == (0, 0), case
        assert run.emitted.total() == 1


def test_without_recomputing_exactly_those_cases_are_lost_whose_parts_would_be_in_the_missing_states() -> None:
    lost = []
    for case in CASES:
        run = Run(join_of("one key", [40] * 4), NoRecomputing)
        run.change(left_deep([0, 1, 2, 3]), "moving", 0)
        order = sorted(range(4), key=lambda port: not case[port])
        for place, port in enumerate(order):
            if place == sum(case):
                run.change(Branch((0, Branch((Branch((1, 2)), 3)))), "moving", 0)
            run.push(port, [Tuple(port, 100, {"id": port, "k": 1, "j": 1, "s": "x"})])
        if run.difference()[0]:
            lost.append("".join("ON"[not is_old] for is_old in case))
    assert lost == ["OOON", "NOOO", "NOON"]  # 2, 5 and 9; of 1 the result was out before the change


def test_a_change_loses_and_repeats_nothing() -> None:
    trial = try_changes(MultiJoinOperator, range(4), tuples=40)
    assert trial.results > 50
    assert (trial.missing, trial.too_many) == (0, 0)


@pytest.mark.slow
def test_many_changes_lose_and_repeat_nothing() -> None:
    """The first row of the table of wrong and right ways to change a plan; the next test has the others."""
    trial = try_changes(MultiJoinOperator, range(60), shapes=(*SHAPES, "one key", "one key"))
    assert trial.results > 800
    assert (trial.missing, trial.too_many) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "how", "shape", "missing", "too_many"),
    [
        (NeighborPurge, "moving", "one key", True, False),
        (NoRecomputing, "moving", "one key", True, False),
        (NoRootRule, "parallel", "one key", False, True),
        (NoEpochs, "stepwise", "one key", False, True),
        (TrustsStoredRows, "moving", "conditions", False, True),
        (TrustsStoredRows, "parallel", "conditions", False, True),
    ],
)
def test_wrong_ways_to_change_a_plan_are_noticed(
    wrong: type[MultiJoinOperator], how: How, shape: Shape, missing: bool, too_many: bool
) -> None:
    trial, seed = try_changes(wrong, range(8), (how,), shapes=(shape,)), 8
    while not (trial.missing or trial.too_many) and seed < 200:
        more = try_changes(wrong, range(seed, seed + 8), (how,), shapes=(shape,))
        trial, seed = trial.plus(more.results, more.missing, more.too_many), seed + 8
    assert bool(trial.missing) is missing
    assert bool(trial.too_many) is too_many


@pytest.mark.parametrize(("build", "missing"), [(MultiJoinOperator, 0), (NeighborPurgeOfJoined, 1)])
def test_a_state_that_both_trees_have_must_not_have_been_purged_too_far_in_its_old_place(
    build: type[MultiJoinOperator], missing: int
) -> None:
    """Pairs of a and b wait for c in the old tree and for d in the new one; d lags behind c."""
    run, row = Run(join_of("one key", [5] * 4), build), {"k": 1, "j": 0, "s": ""}
    run.change(left_deep([0, 1, 2, 3]), "moving", 0)
    for port in range(3):
        run.push(port, [Tuple(port, 1, {**row, "id": port})])
        run.bound(port, 10)
    run.change(left_deep([0, 1, 3, 2]), "moving", 0)
    run.push(3, [Tuple(3, 2, {**row, "id": 3})])
    assert run.difference() == (missing, 0)


def test_conditions_are_tested_on_tuples_or_on_results() -> None:
    run = Run(join_of("conditions", [5] * 3))
    row = {"k": 1, "s": ""}
    fails, passes = ({**row, "j": j} for j in (1, 0))

    def tested() -> dict[int, ConditionSeen]:
        seen = run.operator.seen(sample=False)
        return {port: replace(each, busy_ns=0) for port, each in seen.conditions.items()}

    tree = left_deep(range(3))
    run.push(0, [Tuple(0, 1, {**fails, "id": 1})])
    assert (tested(), run.operator.held()) == ({0: ConditionSeen(1, 0)}, 0)
    run.operator.use(1, with_late(tree, [0]), "moving", 0)  # pulled up
    run.push(0, [Tuple(0, 2, {**fails, "id": 2}), Tuple(0, 2, {**passes, "id": 3})])
    assert (tested(), run.operator.held()) == ({}, 2)
    run.push(1, [Tuple(1, 2, {**fails, "id": 4})])
    run.push(2, [Tuple(2, 2, {**passes, "id": 5})])
    assert tested() == {0: ConditionSeen(2, 1), 2: ConditionSeen(1, 1)}
    run.operator.use(2, tree, "moving", 0)  # pushed down: what is stored may still fail
    run.restore()
    run.push(0, [Tuple(0, 3, {**fails, "id": 6}), Tuple(0, 3, {**passes, "id": 7})])
    run.push(2, [Tuple(2, 3, {**passes, "id": 8})])
    assert tested() == {0: ConditionSeen(2 + 1 + 3, 1 + 1 + 2), 2: ConditionSeen(1, 1)}
    for port in (1, 2):  # all that was stored untested is out of reach
        run.bound(port, 8)
    run.push(1, [Tuple(1, 8, {**fails, "id": 9})])
    run.push(2, [Tuple(2, 8, {**passes, "id": 10})])
    assert tested() == {2: ConditionSeen(1, 1)}
    assert run.emitted
    assert run.difference() == (0, 0)


def test_parallel_track_ends_one_window_after_it_began() -> None:
    run, ids, chance = Run(join_of("one key", [40] * 4)), iter(range(10**6)), random.Random(1)
    for now in range(0, 200, 4):
        for port in range(4):
            run.push(port, random_tuples(chance, ids, port, [now]))
            run.bound(port, now)
        if now == 100:
            run.change(Branch((0, Branch((Branch((1, 2)), 3)))), "parallel", 0)
        run.operator.advance()
        if now > 100 and run.operator.seen(sample=False).migration is None:
            break
    assert 140 <= now <= 148
    assert run.difference() == (0, 0)


def test_stepwise_builds_a_portion_at_a_time_and_survives_a_restart_between_them() -> None:
    run, ids, chance = Run(join_of("one key", [100, 100, 100])), iter(range(10**6)), random.Random(1)
    for now in range(30):
        for port in range(3):
            run.push(port, random_tuples(chance, ids, port, [now]))
    run.change(Branch((0, Branch((1, 2)))), "stepwise", 16)
    left = [run.operator.advance()]
    while left[-1]:
        run.restore()
        run.push(len(left) % 3, random_tuples(chance, ids, len(left) % 3, [30]))
        left.append(run.operator.advance())
    assert len(left) > 5
    assert left == sorted(left, reverse=True)
    assert run.operator.tree == Branch((0, Branch((1, 2))))
    for port in range(3):
        run.push(port, random_tuples(chance, ids, port, [31] * 3))
    assert run.difference() == (0, 0)


@pytest.mark.parametrize("how", STRATEGIES)
def test_joined_rows_that_are_lost_are_computed_from_those_of_the_inputs(how: How) -> None:
    run, ids, chance = Run(join_of("one key", [100, 100, 100])), iter(range(10**6)), random.Random(1)
    for now in range(20):
        for port in range(3):
            run.push(port, random_tuples(chance, ids, port, [now]))
        if now == 10:
            run.change(Branch((0, Branch((1, 2)))), how, 2)
        run.operator.advance()
        if now in (5, 12, 15):
            before = run.operator.seen(sample=False).migration
            assert (before is None) is (how == "moving" or now != 12)
            run.restore(loses_derived=True)
            after = run.operator.seen(sample=False)
            assert after.built > 0
            assert after.migration is None, "a change that was under way is through"
    assert run.operator.tree == Branch((0, Branch((1, 2))))
    assert run.difference() == (0, 0)


def test_joined_rows_that_are_there_are_not_computed_again() -> None:
    run, ids, chance = Run(join_of("one key", [100, 100, 100])), iter(range(10**6)), random.Random(1)
    for now in range(10):
        for port in range(3):
            run.push(port, random_tuples(chance, ids, port, [now]))
    run.restore()
    assert run.operator.seen(sample=False).built == 0


def test_a_change_during_a_change_begins_again_from_the_inputs() -> None:
    run, ids, chance = Run(join_of("one key", [9, 9, 9, 9])), iter(range(10**6)), random.Random(2)
    trees = [flat(4), Branch((Branch((0, 1)), Branch((2, 3)))), left_deep([3, 1, 0, 2]), left_deep([0, 2, 1, 3])]
    for now in range(40):
        run.push(now % 4, random_tuples(chance, ids, now % 4, [now, now]))
        run.change(trees[now % len(trees)], STRATEGIES[now % 3], 2)
        if now % 3 == 0:
            run.operator.advance()
        run.bound(now % 4, now - 4)
    assert run.difference() == (0, 0)


def test_a_change_that_was_taken_does_nothing() -> None:
    operator = MultiJoinOperator(join_of("one key", [5, 5, 5]))
    operator.use(3, flat(3), "moving", 0)
    operator.use(3, left_deep([2, 1, 0]), "moving", 0)
    operator.use(2, left_deep([2, 1, 0]), "moving", 0)
    assert operator.tree == flat(3)
    assert operator.number == 3


def test_what_is_not_needed_is_forgotten_in_all_states() -> None:
    run = Run(join_of("one key", [50, 50, 50]))
    for port, key in product(range(2), range(3)):
        run.push(port, [Tuple(port, 1, {"id": 10 * port + key, "k": key, "j": 0, "s": ""})])
    assert run.operator.held() == 9  # three of each input, three pairs
    assert run.operator.purge(0, pattern((K, equal(1)))) == 2
    run.push(2, [Tuple(2, 1, {"id": 20 + key, "k": key, "j": 0, "s": ""}) for key in range(3)])
    assert sorted(run.emitted) == [(0, 10, 20), (2, 12, 22)]


def test_counts_of_what_was_done() -> None:
    run = Run(join_of("one key", [50, 50, 50]))
    for port, key in product(range(3), (0, 0, 1, None)):
        run.push(port, [Tuple(port, 1, {"id": 0, "k": key, "j": 0, "s": ""})])
    seen = run.operator.seen(sample=True)
    assert [port.taken for port in seen.ports] == [4, 4, 4]
    assert [port.held for port in seen.ports] == [3, 3, 3]
    assert all(port.bytes > 0 for port in seen.ports)
    assert seen.steps == {
        "0>1": StepSeen(3, 0),
        "1>0": StepSeen(3, 5),
        "0.1>2": StepSeen(5, 0),
        "2>0.1": StepSeen(3, 9),
    }
    assert (seen.out, seen.rows) == (9, {"0.1": 5})
    assert [sorted(sample.counts.values()) for sample in seen.samples] == [[1, 2]] * 3
    assert len({tuple(sorted(sample.counts)) for sample in seen.samples}) == 1  # the same keys of all inputs
    assert run.operator.seen(sample=False).ports[0] == PortSeen(0, 3, 0)


def test_the_state_of_a_join_is_purged_by_the_bounds_of_all_other_inputs() -> None:
    """W = 2: b1 must stay for c2 although a is further; a plan that joins a and b first would forget it."""
    run = Run(join_of("one key", [2, 2, 2]))
    row = {"k": 1, "j": 0, "s": ""}
    run.push(1, [Tuple(1, 1, {**row, "id": 1})])
    run.push(0, [Tuple(0, 1, {**row, "id": 1}), Tuple(0, 3, {**row, "id": 3})])
    run.bound(0, 4)
    run.bound(1, 4)
    run.change(Branch((0, Branch((1, 2)))), "moving", 0)
    run.push(2, [Tuple(2, 2, {**row, "id": 2})])
    assert run.difference() == (0, 0)
    assert run.emitted.total() == 2
