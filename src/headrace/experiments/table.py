"""All experiments, in one literal."""

from __future__ import annotations

from headrace.experiments.experiment import Experiment
from headrace.experiments.feedback import imputation, speed_map
from headrace.experiments.qos import (
    error_tolerance,
    fifo_or_chain,
    join_queue,
    load_latency,
    plan_latency,
    random_plans,
    scheduling,
    shed_values,
    shedder_designs,
    shedding,
    strategy_choice,
)
from headrace.experiments.query_graph import burstiness, bursts, registers_or_punctuation
from headrace.experiments.timestamps import idle_waiting, idle_waiting_on_spark

TIMESTAMPS = "Stream Mill's timestamp paper"
QUERY_GRAPH = "Stream Mill's query-graph paper"
FEEDBACK = "NiagaraST's feedback paper"
BOOK = "the QoS book"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "idle-waiting",
        "Waiting for a silent input",
        "How long does a union wait for a silent input: without bounds, with periodic ones, on demand, with latent timestamps?",
        f"{TIMESTAMPS}, experiments",
        idle_waiting.run,
    ),
    Experiment(
        "bursts",
        "Bursts and the order of execution",
        "What does depth first, breadth first, round robin or a batch do to the latency of bursts?",
        f"{QUERY_GRAPH}, DFS and BFS",
        bursts.run,
    ),
    Experiment(
        "registers-or-punctuation",
        "Bounds by registers or as punctuation",
        "How much latency does punctuation add to bounds that pass from register to register, and does it grow with the operators between?",
        f"{QUERY_GRAPH}, enhanced query graph",
        registers_or_punctuation.run,
    ),
    Experiment(
        "burstiness",
        "Burstiness and slide",
        "How unevenly do results come when one input speaks only after every k tuples?",
        f"{QUERY_GRAPH}, burstiness",
        burstiness.run,
    ),
    Experiment(
        "imputation",
        "Imputing what will be in time",
        "How many tuples come in time if those that take long are told which are too late already?",
        f"{FEEDBACK}, first experiment",
        imputation.run,
    ),
    Experiment(
        "speed-map",
        "A speed map of which little is visible",
        "What is saved if the display tells the average, the filter or the source what is not visible?",
        f"{FEEDBACK}, second experiment",
        speed_map.run,
    ),
    Experiment(
        "join-queue",
        "The queue of a window join",
        "How long do tuples wait for a window join that has the processor for itself?",
        f"{BOOK}, tables 5.1 and 5.2",
        join_queue.run,
    ),
    Experiment(
        "plan-latency",
        "The latency of a plan, foreseen and found",
        "Does the model foresee the latency of a plan among others, if plans take turns whole or operator by operator?",
        f"{BOOK}, tables 5.3 to 5.5",
        plan_latency.run,
    ),
    Experiment(
        "load-latency",
        "Latency and load",
        "How does the latency of a plan grow with the load, if tuples come at random and if they come in self-similar bursts?",
        f"{BOOK}, figure 5.12",
        load_latency.run,
    ),
    Experiment(
        "fifo-or-chain",
        "Latency or memory, on three operators",
        "What does Chain gain in memory over first in, first out, and what does it cost in latency?",
        f"{BOOK}, tables 6.1 and 6.2",
        fifo_or_chain.run,
        takes="1 s",
    ),
    Experiment(
        "scheduling",
        "Schedulers under overload",
        "Which scheduler gives the least latency, the least memory, the smoothest output, when 16 queries are overloaded again and again?",
        f"{BOOK}, figures 6.8 to 6.13",
        scheduling.run,
    ),
    Experiment(
        "random-plans",
        "Schedulers on drawn plans",
        "Do the schedulers compare on drawn plans as they do in an independent simulation?",
        f"{BOOK}, claims of chapter 6",
        random_plans.run,
    ),
    Experiment(
        "shedding",
        "Promised latency with and without shedding",
        "Does shedding keep the latency that queries promise, under a scheduler that knows nothing of promises and under one that does?",
        f"{BOOK}, figures 7.6 to 7.11",
        shedding.run,
    ),
    Experiment(
        "shedder-designs",
        "Where to drop",
        "Where in the way of a tuple does it cost least to drop it?",
        f"{BOOK}, figure 7.2",
        shedder_designs.run,
    ),
    Experiment(
        "strategy-choice",
        "A strategy chosen by promises",
        "Does a query do better if its scheduling strategy is chosen anew whenever a promise is broken?",
        f"{BOOK}, figures 10.7 to 10.11",
        strategy_choice.run,
    ),
    Experiment(
        "error-tolerance",
        "What tolerance of errors gains",
        "What do queries gain that may lose some of their results?",
        f"{BOOK}, figures 10.12 and 10.13",
        error_tolerance.run,
    ),
    Experiment(
        "shed-values",
        "An average of what is left",
        "How wrong does an average become by shedding at random, and by shedding values of one kind first?",
        f"{BOOK}, figures 10.14 and 10.15",
        shed_values.run,
    ),
    Experiment(
        "idle-waiting-on-spark",
        "Waiting for a silent input, on Spark in real time",
        "How long after a window's end does its count come when one of two united streams is almost silent?",
        f"{TIMESTAMPS}, claims, on Spark",
        idle_waiting_on_spark.run,
        takes="2 min",
        needs="Java",
    ),
)
