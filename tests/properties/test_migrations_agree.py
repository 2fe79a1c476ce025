"""Changes of join trees at any moment, by every strategy, lose and repeat nothing."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.properties.live import Histories, Live, examples, expected_rows, live
from tests.properties.test_parcels_agree import moved

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Function
from headrace.model.types import Type
from headrace.testing.migrations import SHAPES, STRATEGIES, TREES, Run, Shape, join_of, random_tuples
from headrace.testing.oracle.oracle import Row, as_multiset
from headrace.testing.strategies.queries import STREAMS, stream_histories

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
KEPT = "headrace.testing.migrations:is_kept"
CATALOG.add(Function("kept", (Type.BIGINT,), Type.BOOLEAN, KEPT, "rows"))
FUNCTION = f"CREATE FUNCTION kept(BIGINT) RETURNS BOOLEAN FROM PYTHON '{KEPT}'"
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))


class Changes(RuleBasedStateMachine):
    """Pages, bounds, changes of plan, portions and restarts in any order."""

    @initialize(
        shape=st.sampled_from(("one key", "one key", *SHAPES)),
        spans=st.lists(st.sampled_from([0, 2, 5, 8, None]), min_size=3, max_size=4),
    )
    def begin(self, shape: Shape, spans: list[int | None]) -> None:
        self.run = Run(join_of(shape, spans))
        self.ids = iter(range(10**6))
        self.bounds = [0] * len(spans)

    @rule(port=st.integers(0, 3), ahead=st.lists(st.integers(0, 4), min_size=1, max_size=3), seed=st.integers(0, 99))
    def push(self, port: int, ahead: list[int], seed: int) -> None:
        port %= len(self.bounds)
        times = [self.bounds[port] + more for more in ahead]
        self.run.push(port, random_tuples(random.Random(seed), self.ids, port, times))

    @rule(port=st.integers(0, 3), more=st.integers(1, 4))
    def bound(self, port: int, more: int) -> None:
        port %= len(self.bounds)
        self.bounds[port] += more
        self.run.bound(port, self.bounds[port])

    @rule(number=st.integers(0, 10**6), how=st.sampled_from(STRATEGIES), portion=st.sampled_from([1, 3, 1000]))
    def change(self, number: int, how: str, portion: int) -> None:
        trees = TREES[len(self.bounds)]
        self.run.change(trees[number % len(trees)], how, portion)  # type: ignore[arg-type]

    @rule()
    def advance(self) -> None:
        self.run.operator.advance()

    @rule(loses_derived=st.booleans())
    def restore(self, loses_derived: bool) -> None:
        self.run.restore(loses_derived=loses_derived)

    @invariant()
    def nothing_is_missing_or_too_much(self) -> None:
        if hasattr(self, "run"):
            assert self.run.difference() == (0, 0)


Changes.TestCase.settings = settings(
    deadline=None,
    max_examples=3 * EXAMPLES,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
test_changes_at_any_moment = pytest.mark.slow(Changes.TestCase)


@st.composite
def joins(draw: st.DrawFn) -> str:
    """Draw a join of three streams by one key."""
    window = st.sampled_from(["RANGE 2 SECONDS", "RANGE 5 SECONDS", "RANGE 9 SECONDS", "NOW", "UNBOUNDED"])
    a, b, c = (f"{stream.name} [{draw(window)}] AS {x}" for stream, x in zip(STREAMS, "xyz", strict=True))
    other = draw(st.sampled_from("xy"))
    residual = draw(st.sampled_from(["", " AND x.n <> z.n"]))
    condition = draw(st.sampled_from(["", " WHERE kept(x.n)"]))
    on = f"x.item = y.item JOIN {c} ON {other}.item = z.item{residual}"
    return f"SELECT x.n AS a, y.n AS b, z.n AS c FROM {a} JOIN {b} ON {on}{condition}"


PLANS = ("((x y) z)", "(x (y z))", "((x z) y)", "mjoin", "left-deep")
LATE = ("", " late x")
USING = ("MOVING STATE", "STEPWISE WITHIN '1 us'", "STEPWISE", "PARALLEL TRACK")


MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER SYSTEM SET ets = 'periodic 3 s'",
    "ALTER QUERY live SET scheduler = 'chain'",
    "DESIRE live WHERE a > 1",
)
#: These change what is delivered.
SHEDDING = ("ALTER QUERY live SET shedding = 0.5", "ALTER QUERY live SET shedding = 0.3")
ASSUMED = "ASSUME live WHERE b > 1 AND rowtime < TIMESTAMP '2100-01-01'"


def is_assumed(row: Row) -> bool:
    """Return whether nobody needs a result, as `ASSUMED` says."""
    value = row.values["b"]
    return value is not None and value > 1


def run_changing(
    run: Live, text: str, changes: Sequence[tuple[str, str]], more: Sequence[str], chance: random.Random | None
) -> int:
    """Let every tuple come at its time; change the plan after some of them, with other statements in between.

    With a `chance`, parcels move and are split as well. Return how many results came before some were said not to be
    needed.
    """
    needed = -1
    for number, arrival in enumerate(run.arrivals):
        plan, using = changes[number % len(changes)]
        if using == "PARALLEL TRACK" and "UNBOUNDED" in text:
            using = "STEPWISE WITHIN '1 us'"
        if plan.startswith("(") and "kept" in text:
            plan += LATE[number // 2 % 2]
        if number % 2 == 0:
            run.session.execute(f"ALTER QUERY live MIGRATE TO '{plan}' USING {using}")
        elif chance is not None:
            moved(run, chance)
        if more:
            statement = more[number % len(more)]
            run.session.execute(statement)
            if statement == ASSUMED and needed < 0:
                needed = len(run.results)
        run.arrive(arrival)
    run.session.drain(timeout=30)
    assert all(entry.ended is not None for entry in run.deployment.control.migrations.all())
    return needed if needed >= 0 else len(run.results)


@pytest.mark.slow
def test_queries_whose_plan_changes_between_micro_batches_agree_with_the_oracle() -> None:
    totals = Counter[str]()

    @examples(EXAMPLES)
    @given(
        joins(),
        stream_histories(most=6),
        st.integers(1, 4),
        st.lists(st.tuples(st.sampled_from(PLANS), st.sampled_from(USING)), min_size=1, max_size=4),
        st.lists(st.sampled_from((*MORE, *SHEDDING, ASSUMED)), max_size=4),
        st.none() | st.integers(0, 10**6).map(random.Random),
    )
    def check(
        text: str,
        histories: Histories,
        buckets: int,
        changes: Sequence[tuple[str, str]],
        more: Sequence[str],
        chance: random.Random | None,
    ) -> None:
        sheds = "WITH (error 0.9)" if set(SHEDDING) & set(more) else ""
        with live(text, histories, buckets, setup=FUNCTION, options=sheds, forgetful=buckets % 2 == 0) as run:
            before = run_changing(run, text, changes, more, chance)
        whole = expected_rows(text, run.kept(histories), CATALOG)
        assert not any(map(is_assumed, run.results[before:])), "guards hold in every tree and bucket"
        found, all_of_it = as_multiset(run.results), as_multiset(whole)
        assert found <= all_of_it, f"too many {dict(found - all_of_it)}"
        needed = as_multiset(row for row in whole if ASSUMED not in more or not is_assumed(row))
        assert needed <= found, f"missing {dict(needed - found)}"
        totals.update(shed=len(run.shed), saved=(all_of_it - found).total(), results=len(run.results))

    check()
    if EXAMPLES > 20:  # so many that none of it is by chance
        assert min(totals["shed"], totals["saved"], totals["results"]) > 0
