"""Random histories: queries and rules come, change and go while rows arrive and sessions restart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.testing.deployment.histories import COUNTS, LARGE, MOST, PAIRS, STREAMS, TRIPLES
from headrace.testing.deployment.history import Action, Drain, Execute, History, Push, Restart, Write, rows_of

_DEFINITIONS = """
CREATE EVENT both AS s SEQUENCE t WITHIN 20 SECONDS WHERE s.k = t.k;
CREATE EVENT met AS NOT (t) [s AS x, s AS y] WITHIN 9 SECONDS WHERE x.k = y.k AND x.k = t.k;
CREATE EVENT alarm (k INT, v INT);
CREATE TABLE newest (k INT, v INT, PRIMARY KEY (k)) FROM t;
CREATE TABLE names (k INT, name STRING) FROM FILES (path '{tables}/names.csv') REFRESH '1 s';
CREATE SINK kept INTO FILES (path '{out}/kept', format 'json');
"""
#: Queries by name, each with the query that it reads.
_QUERIES: dict[str, tuple[str, str | None]] = {
    "counts": (COUNTS, None),
    "large": (LARGE, None),
    "most": (MOST, "counts"),
    "pairs": (PAIRS, None),
    "late": ("CREATE QUERY late AS SELECT k, v FROM s.late INTO FILES (path '{out}/late', format 'json');", None),
    "kinds": (
        "CREATE QUERY kinds AS SELECT DISTINCT k FROM t [RANGE 3 SECONDS] "
        "INTO FILES (path '{out}/kinds', format 'json');",
        None,
    ),
    "hops": (
        "CREATE QUERY hops AS SELECT count(*) AS n, max(v) AS most, window_end "
        "FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] INTO FILES (path '{out}/hops', format 'json', roll_bytes 400);",
        None,
    ),
    "unmatched": (
        "CREATE QUERY unmatched AS SELECT s.k, s.v, t.v AS other FROM s [RANGE 2 SECONDS] "
        "LEFT JOIN t [RANGE 2 SECONDS] ON s.k = t.k AND t.v > 4 INTO FILES (path '{out}/unmatched', format 'json');",
        None,
    ),
    "lossy": (
        "CREATE QUERY lossy WITH (error 0.5) AS SELECT k, v FROM s INTO FILES (path '{out}/lossy', format 'json');",
        None,
    ),
    "prompt": (  # no MUST: what comes after it would be refused
        "CREATE QUERY prompt WITH (force, latency '5 ms') AS SELECT k, v FROM t WHERE v > 3 "
        "INTO FILES (path '{out}/prompt', format 'json');",
        None,
    ),
    "triples": (TRIPLES, None),
    "totals": (
        "CREATE QUERY totals AS SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k EMIT CHANGES "
        "STATE TTL '3 s' INTO FILES (path '{out}/totals', format 'json');",
        None,
    ),
    "valued": (
        "CREATE QUERY valued AS SELECT s.k, s.v, n.v AS value FROM s LEFT JOIN newest FOR SYSTEM_TIME AS OF s.at AS n "
        "ON s.k = n.k INTO FILES (path '{out}/valued', format 'json');",
        None,
    ),
    "named": (
        "CREATE QUERY named AS SELECT s.k, s.v, n.name FROM s LEFT JOIN names AS n ON s.k = n.k "
        "INTO FILES (path '{out}/named', format 'json');",
        None,
    ),
    "falls": (
        "CREATE QUERY falls AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY at "
        "MEASURES A.v AS first, COUNT(B.v) AS n, C.v AS last ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
        "PATTERN (A B* C) WITHIN INTERVAL '9' SECOND DEFINE B AS B.v > PREV(B.v), C AS C.v <= A.v + 5) "
        "INTO FILES (path '{out}/falls', format 'json');",
        None,
    ),
    "visits": (
        "CREATE QUERY visits AS SELECT k, count(*) AS n, sum(v) AS total FROM t [SESSION 2 SECONDS] GROUP BY k "
        "INTO FILES (path '{out}/visits', format 'json');",
        None,
    ),
    "steps": (
        "CREATE QUERY steps AS SELECT k, v - lag(v) OVER (PARTITION BY k ORDER BY at) AS step FROM s "
        "INTO FILES (path '{out}/steps', format 'json', roll_bytes 300);",
        None,
    ),
    "best": (
        "CREATE QUERY best AS SELECT k, v, row_number() OVER (PARTITION BY k, window_start, window_end "
        "ORDER BY v DESC) AS place FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '3' SECOND)) "
        "QUALIFY place <= 2 INTO FILES (path '{out}/best', format 'json');",
        None,
    ),
    "meetings": (
        "CREATE QUERY meetings AS SELECT * FROM met INTO FILES (path '{out}/meetings', format 'json');",
        None,
    ),
    "first": ("CREATE QUERY first AS SELECT k, v FROM t LIMIT 4 INTO FILES (path '{out}/first', format 'json');", None),
    "into_kept": (
        "INSERT INTO kept SELECT k, v FROM t WHERE v < 5;",
        None,
    ),
    "alarms": ("CREATE QUERY alarms AS SELECT k, v FROM alarm INTO FILES (path '{out}/alarms', format 'json');", None),
}
_RULES = {
    "notify": "CREATE RULE notify ON both CONTEXT CHRONICLE DO CALL note(s.v), RAISE EVENT alarm(s.k, t.v);",
    "ring": "CREATE RULE ring ON t WHEN t.v > 5 "
    "DO CALL note(t.k), INSERT INTO FILES (path '{out}/ring', format 'json');",
}


def random_history(seed: int, length: int = 12) -> History:
    """Return the history of a seed: `length` actions between the first definitions and the drain."""
    chance = random.Random(seed)
    known: set[str] = set()
    clock = {"s": 1, "t": 1}
    names = ["counts", *chance.sample(sorted(_QUERIES.keys() - {"counts"}), 3)]
    beginning = [_create(name, known) for name in names if name not in known]
    if chance.randrange(2):
        known.add("ring")
        beginning.append(_RULES["ring"])
    actions: list[Action] = [_named(chance), Execute(STREAMS + _DEFINITIONS + "".join(beginning))]
    while len(actions) <= length:
        actions += _next(chance, known, clock)
    # in some of them work takes time, so that the controller has something to decide
    return History(f"random history {seed}", (*actions, Drain()), seed=seed, tick=1_000_000 if seed % 4 == 3 else 0)


def shrunk(history: History, fails: Callable[[History], bool]) -> History:
    """Return a history with as few actions as possible that still fails."""
    smaller = True
    while smaller:
        smaller = False
        for place in range(len(history.actions) - 2, 0, -1):
            shorter = replace(history, actions=history.actions[:place] + history.actions[place + 1 :])
            if fails(shorter):
                history, smaller = shorter, True
    return history


def _changed(name: str, bound: int) -> str:
    """Return a statement that replaces a query; `counts` and `pairs` keep their state."""
    match name:
        case "large":
            text = LARGE.replace("v > 2", f"v > {bound}")
        case "counts":
            text = COUNTS.replace("GROUP BY k", f"WHERE k > {bound % 3} GROUP BY k HAVING count(*) > {bound // 3}")
        case _:
            text = PAIRS.replace("INTO", f"WHERE s.v > {bound} INTO")
    return text.replace("CREATE", "CREATE OR REPLACE")


def _next(chance: random.Random, known: set[str], clock: dict[str, int]) -> Iterator[Action]:
    match chance.choices(
        ("push", "create", "drop", "replace", "turn", "rule", "tell", "set", "move", "write", "restart"),
        (8, 4, 1, 1, 2, 2, 1, 2, 2, 1, 2),
    )[0]:
        case "push":
            stream = chance.choice(("s", "s", "t"))
            yield Push(stream, _rows(chance, stream, clock))
        case "create":
            name = chance.choice(sorted(_QUERIES))
            yield Execute(_create(name, known))
        case "drop":
            names = [name for name in sorted(known & _QUERIES.keys()) if not _is_read(name, known)]
            if names:
                name = chance.choice(names)
                known.discard(name)
                yield Execute(f"DROP QUERY IF EXISTS {name};")
        case "replace":
            names = sorted(known & {"counts", "large", "pairs"})
            if names:
                yield Execute(_changed(chance.choice(names), chance.randrange(6)))
        case "turn":
            names = sorted(known & {"large", "pairs", "kinds", "late", "totals", "falls", "best", "named"})
            if names:
                yield Execute(f"{chance.choice(('STOP', 'START'))} QUERY {chance.choice(names)};")
        case "rule":
            name = chance.choice(sorted(_RULES))
            if name not in known:
                known.add(name)
                yield Execute(_RULES[name])
            elif chance.randrange(2):
                yield Execute(f"{chance.choice(('ENABLE', 'DISABLE'))} RULE {name};")
            else:
                known.discard(name)
                yield Execute(f"DROP RULE IF EXISTS {name};")
        case "tell":
            if "counts" in known:
                yield Execute(f"ASSUME counts WHERE k = {chance.randint(3, 9)} FOR 2 MINUTES;")
        case "set":
            settings = [
                f"ALTER SYSTEM SET scheduler = '{chance.choice(('chain', 'round-robin', 'none'))}';",
                f"ALTER SYSTEM SET budget = '{chance.choice(('1 ms', '1 s', 'off'))}';",
            ]
            if "lossy" in known:
                share = chance.choice(("0.5", "0.2", "'off'"))
                settings.append(f"ALTER QUERY lossy SET shedding = {share};")
            if "counts" in known:
                settings.append(f"DESIRE counts WHERE k = {chance.randint(1, 3)};")
            yield Execute(chance.choice(settings))
        case "move":
            if "triples" in known and chance.randrange(2):
                tree = chance.choice(("(x (y z))", "((x z) y)", "((x y) z)"))
                how = chance.choice(("STEPWISE WITHIN '1 us'", "PARALLEL TRACK", "MOVING STATE"))
                yield Execute(f"ALTER QUERY triples MIGRATE TO '{tree}' USING {how};")
            elif not chance.randrange(3):
                yield Execute(f"ALTER SYSTEM SET buckets = {chance.randint(2, 4)};")
            else:
                moved = chance.choice(sorted(known & {"counts", "pairs", "triples", "totals", "visits"}) or ["counts"])
                some = ", ".join(map(str, sorted(chance.sample(range(128), 60))))
                yield Execute(f"MOVE PARCELS {some} OF {moved} TO BUCKET {chance.randrange(2)};")
        case "write":
            yield _named(chance)
        case _:
            yield Restart()


def _named(chance: random.Random) -> Write:
    """Return new contents of the table of names."""
    return Write("names.csv", f"k,name\n{chance.randint(1, 3)},{chance.choice(('one', 'two', 'three'))}\n")


def _create(name: str, known: set[str]) -> str:
    """Return the statements that create a query, and the one that it reads."""
    text, read = _QUERIES[name]
    before = "" if read is None or read in known else _create(read, known)
    known.add(name)
    return before + text


def _is_read(name: str, known: set[str]) -> bool:
    return any(read == name for other, (_, read) in _QUERIES.items() if other in known)


def _rows(chance: random.Random, stream: str, clock: dict[str, int]) -> tuple[Mapping[str, Any], ...]:
    """Return rows of a stream; its time goes on, some are late."""
    rows = []
    for _ in range(chance.randint(1, 5)):
        clock[stream] = min(55, clock[stream] + chance.randrange(3))
        second = max(0, clock[stream] - chance.choice((0, 0, 0, 1, 4)))
        rows.append((second, chance.randint(1, 3), chance.randint(0, 9)))
    return rows_of(*rows)
