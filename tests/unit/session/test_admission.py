"""A query that would break what MUST hold is refused, with the reason, unless it is forced."""

import pytest

from headrace.errors import Refused
from headrace.session import Session

CALM = "CREATE STREAM calm (k INT) TIMESTAMP INTERNAL FROM GENERATOR (rate 100, rows 1000, col.k 'uniform(1, 100)');"
WILD = (
    "CREATE STREAM wild (k INT) TIMESTAMP INTERNAL FROM GENERATOR (rate 90000000, rows 1000, col.k 'uniform(1, 100)');"
)
SELECT = "AS SELECT k, count(*) AS n FROM {stream} [RANGE 10 SECONDS] GROUP BY k INTO MEMORY"


def create(name, stream, promises):
    return f"CREATE QUERY {name} WITH ({promises}) " + SELECT.format(stream=stream)


def test_a_promise_that_can_hold_is_admitted():
    with Session(host="local") as session:
        session.execute(CALM + create("q", "calm", "latency '1 s' MUST"))
        assert [query.query for query in session._running().queries] == ["q"]


def test_a_promise_that_cannot_hold_is_refused_and_nothing_runs():
    text = WILD + create("q", "wild", "latency '1 s' MUST")
    with Session(host="local") as session:
        with pytest.raises(Refused, match="raise the load of the processor") as refused:
            session.execute(text)
        assert "^" in refused.value.render(text)
        assert "force" in (refused.value.hint or "")
        assert session._running().queries == ()
        assert session.catalog.get("q") is None


def test_a_query_that_would_break_anothers_promise_is_refused():
    with Session(host="local") as session:
        session.execute(CALM + WILD + create("q", "calm", "latency '1 s' MUST"))
        with pytest.raises(Refused, match="greedy would raise the load"):
            session.execute(create("greedy", "wild", "priority 1"))
        assert [query.query for query in session._running().queries] == ["q"]


@pytest.mark.parametrize(
    "promises", ["force, latency '1 s' MUST", "latency '1 s' BEST EFFORT", "throughput '99999999/s' MUST"]
)
def test_force_and_promises_that_need_not_hold_are_admitted(promises):
    with Session(host="local") as session:
        session.execute(WILD + create("q", "wild", promises))
        assert len(session._running().queries) == 1


def test_a_query_whose_load_would_break_a_throughput_is_refused():
    with Session(host="local") as session:
        session.execute(CALM + WILD + create("q", "calm", "throughput '5/s' MUST"))
        with pytest.raises(Refused, match=r"greedy would raise the load .* breaks the promised throughput of q"):
            session.execute(create("greedy", "wild", "priority 1"))
        session.execute(create("greedy", "wild", "force"))
        session.execute("ALTER QUERY q SET (throughput NONE)")
        with pytest.raises(Refused, match="q would break the throughput that it promises"):
            session.execute("ALTER QUERY q SET (throughput '5/s' MUST)")
        session.execute("ALTER QUERY q SET (throughput '5/s')")
        session.execute("ALTER QUERY q SET (force, throughput '5/s' MUST)")


def test_a_throughput_is_admitted_if_there_is_too_little_input_for_it_or_enough_time():
    with Session(host="local") as session:
        session.execute(CALM + create("q", "calm", "throughput '1000000/s' MUST"))
        session.execute(create("r", "calm", "throughput '5/s' MUST"))
        session.execute("ALTER QUERY r SET (throughput '1000000/s' MUST)")
        assert len(session._running().queries) == 2


def test_where_rates_are_not_known_nothing_is_refused():
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (k INT) FROM MEMORY;" + create("q", "s", "latency '1 us' MUST"))
        assert len(session._running().queries) == 1


def test_a_rule_that_would_break_a_promise_is_refused_unless_it_is_forced():
    with Session(host="local") as session:
        session.execute(CALM + WILD + create("q", "calm", "latency '1 s' MUST"))
        with pytest.raises(Refused, match="greedy would raise the load"):
            session.execute("CREATE RULE greedy ON wild DO INSERT INTO MEMORY")
        session.execute("CREATE RULE greedy WITH (force) ON wild DO INSERT INTO MEMORY")
        assert [query.query for query in session._running().queries] == ["q", "greedy"]


def test_a_latency_below_the_fixed_cost_of_a_micro_batch_is_refused_before_anything_is_measured():
    with Session(host="local") as session:
        session.deployment.overhead = 0.05
        with pytest.raises(Refused, match="q would break the promised latency of q"):
            session.execute(CALM + create("q", "calm", "latency '10 ms' MUST"))
        session.execute(CALM + create("q", "calm", "latency '500 ms' MUST"))


@pytest.mark.parametrize("promise", ["memory '1 B' MUST", "latency '1 us' MUST"])
def test_a_new_promise_that_cannot_hold_is_refused_unless_it_is_forced(promise):
    text = f"ALTER QUERY q SET ({promise})"
    with Session(host="local") as session:
        session.execute(CALM + create("q", "calm", "latency '1 s' MUST"))
        with pytest.raises(Refused, match=r"q would break the (memory|latency) that it promises") as refused:
            session.execute(text)
        assert "^" in refused.value.render(text)
        assert session._running().queries[0].qos.memory is None
        session.execute(text.replace("MUST", "BEST EFFORT"))
        session.execute(text.replace("SET (", "SET (force, "))


def test_a_promise_that_is_weakened_is_accepted_whatever_the_load():
    with Session(host="local") as session:
        session.execute(WILD + create("q", "wild", "force, latency '1 s' MUST"))
        session.execute("ALTER QUERY q SET (latency '2 s' BEST EFFORT); ALTER QUERY q SET (latency NONE, priority 2)")


def test_a_checkpoint_with_a_promise_that_was_forced_is_opened_again(tmp_path):
    with Session(tmp_path, host="local") as session:
        session.execute(CALM + create("q", "calm", "latency '1 s' MUST"))
        session.execute("ALTER QUERY q SET (force, memory '1 B' MUST)")
    with Session(tmp_path, host="local") as session:
        assert session._running().queries[0].qos.memory is not None
