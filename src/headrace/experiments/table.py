"""All experiments, in one literal."""

from __future__ import annotations

from headrace.experiments.experiment import Experiment
from headrace.experiments.feedback import imputation, speed_map, speed_map_on_spark
from headrace.experiments.plans import (
    balancing,
    migration_effect,
    migration_length,
    multiway_costs,
    plan_clouds,
    qualified_plans,
    reoptimizing,
    search_time,
)
from headrace.experiments.qos import (
    error_tolerance,
    fifo_or_chain,
    join_queue,
    load_latency,
    plan_latency,
    random_plans,
    scheduling,
    scheduling_on_spark,
    shed_values,
    shedder_designs,
    shedding,
    shedding_on_spark,
    strategy_choice,
)
from headrace.experiments.query_graph import burstiness, bursts, registers_or_punctuation
from headrace.experiments.timestamps import idle_waiting, idle_waiting_on_spark

TIMESTAMPS = "Stream Mill's timestamp paper"
QUERY_GRAPH = "Stream Mill's query-graph paper"
FEEDBACK = "NiagaraST's feedback paper"
BOOK = "the QoS book"
CAPE = "CAPE's dissertation"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "idle-waiting",
        "Waiting for a silent input",
        "How long does a union wait for a silent input: without bounds, with periodic bounds, with bounds on demand?",
        f"{TIMESTAMPS}, experiments",
        idle_waiting.run,
        on_spark=idle_waiting_on_spark.run,
    ),
    Experiment(
        "bursts",
        "Bursts and the order of execution",
        "How do depth first, breadth first, round robin and batches affect the latency of bursts?",
        f"{QUERY_GRAPH}, DFS and BFS",
        bursts.run,
    ),
    Experiment(
        "registers-or-punctuation",
        "Bounds by registers or as punctuation",
        "How much slower are bounds as punctuation than in registers, and does it grow with the number of operators?",
        f"{QUERY_GRAPH}, enhanced query graph",
        registers_or_punctuation.run,
    ),
    Experiment(
        "burstiness",
        "Burstiness and slide",
        "How uneven is the output of a union when one input delivers only after every k tuples?",
        f"{QUERY_GRAPH}, burstiness",
        burstiness.run,
    ),
    Experiment(
        "imputation",
        "Imputing only tuples that can be on time",
        "How many more tuples are on time if slow operators skip tuples that are already too late?",
        f"{FEEDBACK}, first experiment",
        imputation.run,
    ),
    Experiment(
        "speed-map",
        "A speed map of which a small part is visible",
        "How much work is saved by feedback about invisible segments to the average, the filter or the source?",
        f"{FEEDBACK}, second experiment",
        speed_map.run,
        on_spark=speed_map_on_spark.run,
    ),
    Experiment(
        "join-queue",
        "The queue of a window join",
        "How long do tuples wait for a window join that has the processor to itself?",
        f"{BOOK}, tables 5.1 and 5.2",
        join_queue.run,
    ),
    Experiment(
        "plan-latency",
        "The latency of a plan, predicted and simulated",
        "Does the model predict a plan's latency if plans take turns as a whole, and operator by operator?",
        f"{BOOK}, tables 5.3 to 5.5",
        plan_latency.run,
    ),
    Experiment(
        "load-latency",
        "Latency and load",
        "How does a plan's latency grow with the load, for Poisson arrivals and for self-similar bursts?",
        f"{BOOK}, figure 5.12",
        load_latency.run,
    ),
    Experiment(
        "fifo-or-chain",
        "Latency or memory, on three operators",
        "How much memory does Chain save compared with FIFO, and at what latency?",
        f"{BOOK}, tables 6.1 and 6.2",
        fifo_or_chain.run,
        takes="1 s",
    ),
    Experiment(
        "scheduling",
        "Schedulers under overload",
        "Which scheduler gives the lowest latency, the least memory and the smoothest output under repeated overload?",
        f"{BOOK}, figures 6.8 to 6.13",
        scheduling.run,
        on_spark=scheduling_on_spark.run_on_spark,
    ),
    Experiment(
        "random-plans",
        "Schedulers on random plans",
        "Do the schedulers compare on random plans as they do in an independent simulation?",
        f"{BOOK}, claims of chapter 6",
        random_plans.run,
    ),
    Experiment(
        "shedding",
        "Promised latency with and without shedding",
        "Does shedding keep promised latencies, under a scheduler that ignores promises and under one that uses them?",
        f"{BOOK}, figures 7.6 to 7.11",
        shedding.run,
        on_spark=shedding_on_spark.run,
    ),
    Experiment(
        "shedder-designs",
        "Where to drop",
        "At which point on the path of a tuple is dropping it cheapest?",
        f"{BOOK}, figure 7.2",
        shedder_designs.run,
    ),
    Experiment(
        "strategy-choice",
        "A strategy chosen by promises",
        "Does a query do better if its scheduling strategy is reconsidered whenever a promise is broken?",
        f"{BOOK}, figures 10.7 to 10.11",
        strategy_choice.run,
    ),
    Experiment(
        "error-tolerance",
        "The gain from tolerating errors",
        "What does a query gain if it may lose some of its results?",
        f"{BOOK}, figures 10.12 and 10.13",
        error_tolerance.run,
    ),
    Experiment(
        "shed-values",
        "The error of an average after shedding",
        "How large is the error of an average after shedding at random, and after shedding by value?",
        f"{BOOK}, figures 10.14 and 10.15",
        shed_values.run,
    ),
    Experiment(
        "qualified-plans",
        "Join plans within limits, by heuristics and by exact search",
        "How often do heuristics find a join plan within limits of work and memory, compared with all plans?",
        f"{CAPE}, figure 8.10",
        qualified_plans.run,
        takes="10 s",
    ),
    Experiment(
        "search-time",
        "The time of a search for join plans",
        "How does the time of a search grow with the number of streams, for heuristics and for all plans?",
        f"{CAPE}, figures 8.11 and 8.12",
        search_time.run,
        takes="5 s",
    ),
    Experiment(
        "plan-clouds",
        "Memory or work: what two heuristics prefer",
        "Do plans of MJoin-Init need less memory and more work than those of BJTree-Init?",
        f"{CAPE}, figures 8.13 to 8.15",
        plan_clouds.run,
        takes="5 s",
    ),
    Experiment(
        "multiway-costs",
        "Binary trees, MJoins and trees in between",
        "How do plans of a join compare in work, memory and throughput if either is limited?",
        f"{CAPE}, figures 8.2 to 8.9",
        multiway_costs.run,
        takes="1 min",
    ),
    Experiment(
        "migration-length",
        "The length of a change of plan",
        "How long does a change of plan take at once and with two plans, by window and rate?",
        f"{CAPE}, figures 16.1 to 16.4",
        migration_length.run,
        takes="1 min",
    ),
    Experiment(
        "migration-effect",
        "Results and states while a plan changes",
        "What do results and states look like while a plan changes, with power to spare and under overload?",
        f"{CAPE}, figures 16.5 to 16.8",
        migration_effect.run,
        takes="1 min",
    ),
    Experiment(
        "reoptimizing",
        "Plans that change while they run",
        "What does an optimizer bring that changes plans as the data drift, and what does it cost if they do not?",
        f"{CAPE}, figures 16.9 to 16.13",
        reoptimizing.run,
        takes="1 min",
    ),
    Experiment(
        "balancing",
        "Partitions that move, and plans of each machine",
        "What do moves of partitions and plans of their own bring to machines of which one has half of the keys?",
        f"{CAPE}, figures 23.1 to 23.15",
        balancing.run,
        takes="3 min",
    ),
    Experiment(
        "idle-waiting-on-spark",
        "Waiting for a silent input, on Spark in real time",
        "How long after a window's end does its count arrive if one of two united streams is almost silent?",
        f"{TIMESTAMPS}, claims, on Spark",
        idle_waiting_on_spark.run,
        takes="2 min",
        needs="Java",
    ),
)
