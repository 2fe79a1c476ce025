"""Hypothesis strategies for queries as text over fixed streams and a table, and for the streams' histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from headrace.catalog.definitions import Connector, Stream, Table, Timing
from headrace.language.syntax.names import FED
from headrace.model.schema import Schema
from headrace.model.time import SECOND
from headrace.model.types import DataType, Type
from headrace.testing.oracle.rows import Row
from headrace.testing.strategies.modifier_queries import modifiers, suppressions, window_modifiers
from headrace.testing.strategies.values import histories

_MEMORY = Connector("MEMORY", {})
_AT = Type.TIMESTAMP

STREAMS: tuple[Stream, ...] = (
    Stream(
        "bids",
        Schema.of(at=_AT, item=Type.STRING, n=Type.BIGINT, price=Type.DOUBLE),
        _MEMORY,
        Timing.EXTERNAL,
        "at",
        2 * SECOND,
    ),
    Stream(
        "asks", Schema.of(at=_AT, item=Type.STRING, n=Type.INT, price=Type.DOUBLE), _MEMORY, Timing.EXTERNAL, "at", 0
    ),
    Stream(
        "moves",
        Schema.of(at=_AT, item=Type.STRING, n=Type.BIGINT, up=Type.BOOLEAN),
        _MEMORY,
        Timing.EXTERNAL,
        "at",
        5 * SECOND,
    ),
)
TABLES: tuple[Table, ...] = (Table("items", Schema.of(item=Type.STRING, kind=Type.BIGINT), _MEMORY),)
#: Tables that streams feed.
FED_TABLES: tuple[Table, ...] = (
    Table("last_bids", STREAMS[0].schema, Connector(FED, {"stream": "bids"}), key=("item",)),
    Table("last_moves", STREAMS[2].schema, Connector(FED, {"stream": "moves"}), key=("item", "n")),
)
TABLE_ROWS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "items": ({"item": "a", "kind": 1}, {"item": "a", "kind": 2}, {"item": "b", "kind": 1}, {"item": None, "kind": 3})
}
_ITEM_AND_N = Schema.of(item=Type.STRING, n=Type.BIGINT)


def stream_statements() -> str:
    """Draw the statements that create STREAMS."""
    return ";\n".join(_create(stream) for stream in STREAMS)


@st.composite
def stream_histories(draw: DrawFn, *, most: int = 15) -> dict[str, list[Row]]:
    """Draw a history for each of STREAMS, in arrival order, none of it late."""
    drawn: dict[str, list[Row]] = {}
    for stream in STREAMS:
        least = draw(st.sampled_from([0, most // 2, most // 2]))  # too many empty streams would test nothing
        drawn[stream.name] = draw(
            histories(stream.schema, skew=stream.skew, least=least, most=most, time_column=stream.time_column)
        )
    return drawn


def queries(*, tables: bool = False) -> SearchStrategy[str]:
    """Draw queries of every shape; `tables` permits joins with the stored table."""
    shapes = [
        projections(),
        aggregates(),
        joins(),
        three_way_joins(),
        multi_way_joins(),
        sequences(),
        unions(),
        distincts(),
        aggregates_of_joins(),
        nested(),
        limits(),
    ]
    shapes += [speaking_joins(), modifiers(), window_modifiers(), suppressions()]
    return st.one_of(*shapes, table_joins(), memberships(), imputations()) if tables else st.one_of(*shapes)


@st.composite
def projections(draw: DrawFn) -> str:
    """Draw SELECT expressions FROM a stream WHERE a condition."""
    stream = draw(st.sampled_from(STREAMS))
    names = _names(stream)
    columns = ", ".join(f"{draw(_scalar(names))} AS c{i}" for i in range(draw(st.integers(1, 3))))
    return f"SELECT {columns} FROM {stream.name}{draw(_where(names))}"


@st.composite
def aggregates(draw: DrawFn) -> str:
    """Draw aggregates over every kind of window, with GROUP BY and HAVING."""
    stream = draw(st.sampled_from(STREAMS))
    names = _names(stream)
    window = draw(_window())
    return draw(_aggregate(f"{stream.name} [{window}]", names, where=True, ordered=True))


@st.composite
def joins(draw: DrawFn) -> str:
    """Draw two streams joined by equality, perhaps with a further condition, inner or outer."""
    left, right = draw(st.sampled_from(STREAMS)), draw(st.sampled_from(STREAMS))
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    on = _ON + draw(st.sampled_from(["", " AND x.n < y.n", " AND x.n + y.n > 2", " AND x.n = y.n"]))
    where = draw(st.sampled_from(["", " WHERE x.n > 0", " WHERE y.n IS NULL", " WHERE y.n >= x.n OR x.item = 'a'"]))
    columns = draw(
        st.sampled_from(
            ["x.item AS i, x.n AS a, y.n AS b", "y.at AS t, x.n + y.n AS s", "coalesce(x.item, y.item) AS i, y.n AS b"]
        )
    )
    return f"SELECT {columns} FROM {draw(_joined(left, 'x'))} {kind} {draw(_joined(right, 'y'))} ON {on}{where}"


@st.composite
def speaking_joins(draw: DrawFn) -> str:
    """Draw a THRIFTY or IMPATIENT join of two or three streams."""
    names = [draw(st.sampled_from(STREAMS)).name for _ in range(draw(st.integers(2, 3)))]
    windows = [
        draw(st.sampled_from([f"RANGE {draw(st.integers(1, 6))} SECONDS"] * 3 + ["NOW", "UNBOUNDED"])) for _ in names
    ]
    items = [f"{name} [{window}] AS {alias}" for name, window, alias in zip(names, windows, "xyz", strict=False)]
    manners = [draw(st.sampled_from(["THRIFTY", "IMPATIENT"])) for _ in names]
    residual = draw(st.sampled_from(["", " AND x.n < y.n"]))
    text = f"SELECT x.item AS i, x.n AS a, y.n AS b FROM {items[0]} {manners[0]} JOIN {items[1]} ON {_ON}{residual}"
    return text if len(names) == 2 else f"{text} {manners[1]} JOIN {items[2]} ON y.item = z.item"


@st.composite
def three_way_joins(draw: DrawFn) -> str:
    """Draw a join of all three streams, each with a time window."""
    spans = [draw(st.integers(1, 8)) for _ in range(3)]
    a, b, c = (
        f"{stream.name} [RANGE {span} SECONDS] AS {alias}"
        for stream, span, alias in zip(STREAMS, spans, "xyz", strict=True)
    )
    residual = draw(st.sampled_from(["", " AND x.n < z.n"]))
    joins = f"{a} JOIN {b} ON x.item = y.item JOIN {c} ON y.item = z.item"
    return f"SELECT x.n AS a, y.n AS b, z.n AS c FROM {joins}{residual}"


@st.composite
def multi_way_joins(draw: DrawFn) -> str:
    """Draw a join of three or four streams by one key and perhaps more, with all kinds of time windows."""
    aliases = "wxyz"[: draw(st.integers(3, 4))]
    window = st.sampled_from([*(f"RANGE {span} SECONDS" for span in (1, 2, 4, 6)), "NOW", "UNBOUNDED"])
    items = [f"{draw(st.sampled_from(STREAMS)).name} [{draw(window)}] AS {alias}" for alias in aliases]
    text = items[0]
    for place, (item, alias) in enumerate(zip(items[1:], aliases[1:], strict=True)):
        other = aliases[draw(st.integers(0, place))]
        more = draw(st.sampled_from(["", "", f" AND {other}.n = {alias}.n", f" AND {other}.n < {alias}.n"]))
        text += f" {draw(st.sampled_from(['', '', '', 'LEFT ']))}JOIN {item} ON {other}.item = {alias}.item{more}"
    where = draw(
        st.sampled_from(["", "", " WHERE w.n > 0", " WHERE w.n + x.n > y.n", " WHERE w.n = w.n AND x.n < y.n"])
    )
    columns = draw(st.sampled_from(["w.n AS a, x.n AS b, y.n AS c", "w.item AS i", f"{aliases[-1]}.n AS a"]))
    if draw(st.booleans()):
        return f"SELECT {columns} FROM {text}{where}"
    inner = f"(SELECT w.item, x.n FROM {text}{where})"
    return f"SELECT w.item AS i, count(*) AS m FROM {inner} [RANGE 4 SECONDS] AS w GROUP BY w.item"


@st.composite
def sequences(draw: DrawFn) -> str:
    """Draw a stream and what follows it, by key or not, perhaps with further conditions on one side or both."""
    left, right = draw(st.sampled_from(STREAMS)), draw(st.sampled_from(STREAMS))
    modes = ["RECENT", "RECENT INCLUSIVE", "CHRONICLE", "CHRONICLE INCLUSIVE", "CONSUMING", "CONSUMING"]
    mode = draw(st.sampled_from(modes))
    terms = draw(
        st.lists(
            st.sampled_from([_ON, _ON, "x.n = y.n", "x.n < y.n", "x.n > 0", "y.n <> 1"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    bare = mode.startswith("RECENT") and not {_ON, "x.n = y.n"}.isdisjoint(terms) and "x.n < y.n" not in terms
    windows = [f"[RANGE {draw(st.integers(1, 12))} SECONDS]"] * 3 + ["[UNBOUNDED]", "[NOW]"] + ["", ""] * bare
    columns = draw(st.sampled_from(["x.item AS i, x.n AS a, y.n AS b", "x.at AS s, y.at AS t", "y.n AS b"]))
    where = draw(
        st.sampled_from(
            ["", "", " WHERE x.n > 0", " WHERE y.n > 0", " WHERE x.item = 'a'", " WHERE y.item <> 'a' AND x.n < y.n"]
        )
    )
    first = draw(
        st.sampled_from(
            [left.name, left.name, f"(SELECT at, item, n FROM {left.name} UNION ALL SELECT at, item, n FROM bids)"]
        )
    )
    second = draw(
        st.sampled_from(
            [right.name, right.name, f"(SELECT at, item, n FROM {right.name} UNION ALL SELECT at, item, n FROM moves)"]
        )
    )
    window = draw(st.sampled_from(windows))
    other = draw(st.sampled_from(windows)) if mode == "CONSUMING" else ""
    mode = mode if mode == "CONSUMING" else f"FOLLOWING {mode}"
    joined = f"{first} {window} AS x JOIN {second} {other} AS y ON {' AND '.join(terms)} {mode}"
    return f"SELECT {columns} FROM {joined}{where}"


@st.composite
def unions(draw: DrawFn) -> str:
    """Draw a union of two selections with columns of matching types."""
    first_stream, second_stream = draw(st.sampled_from(STREAMS)), draw(st.sampled_from(STREAMS))
    first, second = (
        f"SELECT item AS i, {draw(_integer(_names(s)))} AS v FROM {s.name}{draw(_where(_names(s)))}"
        for s in (first_stream, second_stream)
    )
    return f"{first} UNION ALL {second}"


@st.composite
def distincts(draw: DrawFn) -> str:
    """Draw the different rows that a window holds."""
    stream = draw(st.sampled_from(STREAMS))
    window = draw(st.sampled_from(["RANGE 3 SECONDS", "RANGE 10 SECONDS", "NOW", "UNBOUNDED"]))
    columns = draw(st.sampled_from(["item", "item, n", "n % 2 AS odd"]))
    return f"SELECT DISTINCT {columns} FROM {stream.name} [{window}]{draw(_where(_names(stream)))}"


@st.composite
def aggregates_of_joins(draw: DrawFn) -> str:
    """Draw groups of joined tuples."""
    left, right = draw(st.sampled_from(STREAMS)), draw(st.sampled_from(STREAMS))
    spans = [draw(st.integers(1, 8)) for _ in range(2)]
    source = f"{left.name} [RANGE {spans[0]} SECONDS] AS x JOIN {right.name} [RANGE {spans[1]} SECONDS] AS y ON {_ON}"
    calls = draw(st.sampled_from(["count(*) AS c", "sum(x.n) AS s, count(y.n) AS c", "max(y.n) AS m, avg(x.n) AS a"]))
    having = draw(st.sampled_from(["", " HAVING count(*) > 1"]))
    return f"SELECT x.item AS i, {calls}, window_end FROM {source} GROUP BY x.item{having}"


@st.composite
def nested(draw: DrawFn) -> str:
    """Draw an aggregate over a sub-query: a projection, an aggregate, a join or a union."""
    inner = draw(
        st.sampled_from(STREAMS).map(lambda s: f"SELECT item, n FROM {s.name} WHERE n > 0")
        | st.sampled_from(STREAMS).map(
            lambda s: f"SELECT item, count(*) AS n FROM {s.name} [RANGE 2 SECONDS] GROUP BY item"
        )
        | st.just(
            "SELECT x.item AS item, y.n AS n "
            f"FROM bids [RANGE 4 SECONDS] AS x LEFT JOIN moves [RANGE 4 SECONDS] AS y ON {_ON}"
        )
        | st.just("SELECT item, n FROM bids UNION ALL SELECT item, n FROM moves")
    )
    names = {field.name: field.type for field in _ITEM_AND_N}
    # first and last of tuples that no stream numbered depend on more than the query says
    return draw(_aggregate(f"({inner}) [{draw(_window())}] AS q", names, where=False, ordered=False))


@st.composite
def ranks(draw: DrawFn) -> str:
    """Draw places of the groups of a window, or of the tuples of a tumbling window, perhaps only the first ones."""
    stream = draw(st.sampled_from(STREAMS))
    function = draw(st.sampled_from(["row_number", "rank", "dense_rank"]))
    direction = draw(st.sampled_from(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"]))
    span = draw(st.integers(1, 6))
    if draw(st.booleans()):
        keys = draw(st.sampled_from(["window_end", "window_start, window_end", "window_end, m"]))
        over = f"{function}() OVER (PARTITION BY {keys} ORDER BY m{direction}, c)"
        source = f"FROM {stream.name} [RANGE {span} SECONDS] GROUP BY item"
        select = f"SELECT item, count(*) AS c, max(n) AS m, window_start, window_end, {over} AS place {source}"
    else:
        keys = draw(st.sampled_from(["window_start, window_end", "window_end, item, window_start"]))
        over = f"{function}() OVER (PARTITION BY {keys} ORDER BY n{direction})"
        source = f"FROM TABLE(TUMBLE(TABLE {stream.name}, DESCRIPTOR(rowtime), INTERVAL '{span}' SECOND))"
        select = f"SELECT item, n, {over} AS place {source}{draw(_where(_names(stream)))}"
    return select + draw(st.sampled_from(["", " QUALIFY place <= 2", f" QUALIFY {over} = 1 OR item IS NULL"]))


@st.composite
def tops(draw: DrawFn) -> str:
    """Draw the first rows of each window by something else than time."""
    stream = draw(st.sampled_from(STREAMS))
    span, count = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    direction = draw(st.sampled_from(["", " DESC", " NULLS LAST"]))
    if draw(st.booleans()):
        return (
            f"SELECT item, count(*) AS c, max(n) AS m FROM {stream.name} [RANGE {span} SECONDS] GROUP BY item "
            f"ORDER BY m{direction}, c LIMIT {count}"
        )
    where = draw(_where(_names(stream)))
    return f"SELECT item, n FROM {stream.name} [RANGE {span} SECONDS]{where} ORDER BY n{direction} LIMIT {count}"


@st.composite
def deduplications(draw: DrawFn) -> str:
    """Draw the first or last tuples of each key, of a stream or of what joins and unions give."""
    source = draw(
        st.sampled_from(STREAMS).map(lambda s: s.name)
        | (unions() | joins()).map(lambda inner: f"(SELECT 1 AS item, * FROM ({inner}) AS y)")
    )
    order = draw(st.sampled_from(["", " ORDER BY rowtime", " ORDER BY rowtime DESC", " ORDER BY item, rowtime DESC"]))
    span = draw(st.integers(0, 6))
    return f"SELECT DISTINCT ON (item) * FROM {source} [RANGE {span + 1} SECONDS] AS x{order}"


@st.composite
def overs(draw: DrawFn) -> str:
    """Draw values of the tuples before each tuple, perhaps with a condition on them."""
    stream = draw(st.sampled_from(STREAMS))
    frame = draw(
        st.sampled_from(
            [
                "",
                " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                " ROWS UNBOUNDED PRECEDING",
                " RANGE BETWEEN INTERVAL 3 SECONDS PRECEDING AND CURRENT ROW",
                " RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
            ]
        )
    )
    by = draw(st.sampled_from(["PARTITION BY item ", ""]))
    function = draw(st.sampled_from(["sum(n)", "count(*)", "min(n)", "first_value(n)", "avg(n) FILTER (WHERE n > 2)"]))
    call = draw(
        st.sampled_from(
            [
                f"lag(n, 2, 0) OVER ({by}ORDER BY rowtime)",
                f"n - lag(n) OVER ({by}ORDER BY rowtime)",
                f"{function} OVER ({by}ORDER BY rowtime{frame})",
                f"row_number() OVER ({by}ORDER BY rowtime)",
            ]
        )
    )
    qualify = draw(st.sampled_from(["", " QUALIFY v > 1"]))
    return f"SELECT item, n, {call} AS v FROM {stream.name}{draw(_where(_names(stream)))}{qualify}"


@st.composite
def window_overs(draw: DrawFn) -> str:
    """Draw values of the tuples, or of the results, of each complete window, perhaps with a condition on them."""
    stream = draw(st.sampled_from(STREAMS))
    frame = draw(
        st.sampled_from(
            [
                "",
                " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                " ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
                " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                " RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
            ]
        )
    )
    function = draw(
        st.sampled_from(
            ["sum(n)", "count(*)", "max(n)", "last_value(n)", "avg(n) FILTER (WHERE n > 2)", "nth_value(n, 2)"]
        )
    )
    order = draw(st.sampled_from(["n, c", "n DESC, c", "c NULLS LAST, n"]))
    place = draw(
        st.sampled_from(["lead(n, 2, 0)", "lag(n)", "ntile(2)", "percent_rank()", "cume_dist()", "1 + rank()"])
    )
    span = draw(st.integers(1, 6))
    qualify = draw(st.sampled_from(["", " QUALIFY v > 1"]))
    if draw(st.booleans()):
        by = draw(st.sampled_from(["window_end", "window_start", "window_end, n"]))
        source = f"(SELECT item, n, count(*) AS c, window_start, window_end FROM {stream.name} [RANGE {span} SECONDS] "
        source += "GROUP BY item, n) AS w"
    else:
        by = draw(st.sampled_from(["item", "n"]))
        source = f"(SELECT item, n, n % 2 AS c FROM {stream.name}) [RANGE {span} SECONDS] AS w"
    whole = draw(
        st.sampled_from([f"{function} OVER (PARTITION BY {by})", f"{place} OVER (PARTITION BY {by} ORDER BY {order})"])
    )
    framed = f"{function} OVER (PARTITION BY {by} ORDER BY {order}{frame})"
    return f"SELECT item, n, c, {framed} AS v, {whole} AS x FROM {source}{qualify}"


@st.composite
def matches(draw: DrawFn) -> str:
    """Draw a row pattern with quantifiers and conditions on the row, the row before, other variables and aggregates."""
    stream = draw(st.sampled_from(STREAMS))
    by = draw(st.sampled_from(["PARTITION BY item ", ""]))
    skip = draw(st.sampled_from(["PAST LAST ROW", "TO NEXT ROW"]))
    of_b, of_c = (draw(st.sampled_from(["", "+", "*", "?", "{2}", "{1,2}", "{2,}"])) for _ in range(2))
    b = draw(st.sampled_from(["B.n > 2", "B.n >= PREV(B.n)", "B.n <> A.n", "SUM(B.n) < 9", "LAST(B.n, 1) IS NULL"]))
    c = draw(st.sampled_from(["C.n < 4", "C.n < LAST(B.n)", "C.n < FIRST(n)", "COUNT(C.n) < 3"]))
    within = draw(st.integers(1, 12))
    return (
        f"SELECT * FROM {stream.name} MATCH_RECOGNIZE ({by}ORDER BY rowtime MEASURES A.n AS a, COUNT(B.n) AS bs, "
        f"SUM(B.n) AS total, LAST(C.n) AS c, FIRST(B.n, 1) AS second, MAX(n) AS most, D.n - A.n AS up "
        f"ONE ROW PER MATCH AFTER MATCH SKIP {skip} PATTERN (A B{of_b} C{of_c} D) WITHIN INTERVAL '{within}' SECOND "
        f"DEFINE B AS {b}, C AS {c}){draw(st.sampled_from(['', ' WHERE bs > 1']))}"
    )


@st.composite
def limits(draw: DrawFn) -> str:
    """Draw the first results of a query, by themselves or as a sub-query below a condition, a window or a union."""
    count = draw(st.integers(0, 6))
    form = draw(st.integers(0, 3))
    if form == 0:
        whole = projections() | aggregates() | joins() | sequences() | unions() | distincts() | aggregates_of_joins()
        return f"{draw(whole)}{draw(st.sampled_from(['', ' ORDER BY rowtime']))} LIMIT {count}"
    inner = draw(
        st.sampled_from(STREAMS).map(lambda s: f"SELECT item, n FROM {s.name}")
        | st.sampled_from(STREAMS).map(lambda s: f"SELECT item, n FROM {s.name} WHERE n > 0")
        | st.just(f"SELECT x.item AS item, y.n AS n FROM bids [RANGE 4 SECONDS] AS x JOIN asks [NOW] AS y ON {_ON}")
        | st.just("SELECT item, n FROM bids UNION ALL SELECT item, n FROM moves")
    )
    first = f"(SELECT * FROM ({inner}) AS p LIMIT {count})"
    if form == 1:
        return f"SELECT n FROM {first} AS q WHERE n > 1 AND item <> 'b'{draw(st.sampled_from(['', ' LIMIT 2']))}"
    if form == 2:
        return f"SELECT item, n FROM {first} AS q UNION ALL SELECT item, n FROM bids"
    names = {field.name: field.type for field in _ITEM_AND_N}
    return draw(_aggregate(f"{first} [{draw(_window())}] AS q", names, where=False, ordered=False))


@st.composite
def table_joins(draw: DrawFn) -> str:
    """Draw a stream with the stored table."""
    stream = draw(st.sampled_from(STREAMS))
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    residual = draw(st.sampled_from(["", " AND x.n > i.kind"]))
    joined = f"{stream.name} AS x {kind} items AS i ON x.item = i.item{residual}"
    return f"SELECT x.item AS item, x.n AS n, i.kind AS kind FROM {joined}"


@st.composite
def temporal_joins(draw: DrawFn) -> str:
    """Draw a stream with a table that a stream feeds, as of its time."""
    stream = draw(st.sampled_from(STREAMS))
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    table, on = draw(st.sampled_from([("last_bids", _ON), ("last_moves", f"{_ON} AND y.n = x.n")]))
    where = draw(st.sampled_from(["", " WHERE y.n > 0", " WHERE x.item <> 'b'", " WHERE y.item IS NULL OR x.n > 0"]))
    joined = f"{stream.name} AS x {kind} {table} FOR SYSTEM_TIME AS OF x.at AS y ON {on}"
    inner = f"SELECT x.item AS item, y.n AS n, x.at AS at, y.at AS since FROM {joined}{where}"
    if draw(st.booleans()):
        return inner
    names = {field.name: field.type for field in _ITEM_AND_N}
    return draw(_aggregate(f"({inner}) [{draw(_window())}] AS q", names, where=False, ordered=True))


@st.composite
def changelogs(draw: DrawFn) -> str:
    """Draw a GROUP BY without a window, whose groups begin anew after a while."""
    stream = draw(st.sampled_from(STREAMS))
    group = draw(st.sampled_from(["item", "item, n % 2", ""]))
    shown = draw(
        st.sampled_from(
            [
                "count(*) AS c, max(n) AS m",
                "min(n) AS m",
                "sum(n) AS s, first(n) AS f",
                "count(DISTINCT n) AS d, 1 AS one",
            ]
        )
    )
    keys = f"item, {shown}" if group == "item" else shown
    having = draw(st.sampled_from(["", "", " HAVING max(n) < 3", " HAVING count(*) % 2 = 1"]))
    where = draw(_where(_names(stream)))
    grouped = f" GROUP BY {group}" if group else ""
    ttl = draw(st.integers(1, 9))
    return f"SELECT {keys} FROM {stream.name}{where}{grouped}{having} EMIT CHANGES STATE TTL '{ttl} s'"


@st.composite
def join_changelogs(draw: DrawFn) -> str:
    """Draw the changes of an inner or outer join without windows, with conditions below and above it."""
    left, right = draw(st.sampled_from(STREAMS)), draw(st.sampled_from(STREAMS))
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    on = draw(st.sampled_from([_ON, _ON, "x.n = y.n", "x.n < y.n"]))
    on += draw(st.sampled_from(["", " AND x.n < y.n", " AND x.n > 0", " AND y.n > 0"]))
    where = draw(st.sampled_from(["", "", " WHERE x.n > 0", " WHERE y.n IS NULL", " WHERE y.n >= x.n OR x.item = 'a'"]))
    columns = draw(
        st.sampled_from(
            ["x.item AS i, x.n AS a, y.n AS b", "x.n + y.n AS change", "coalesce(x.item, y.item) AS i, y.at AS t"]
        )
    )
    window = draw(st.sampled_from(["", "", " [RANGE 2 SECONDS]", " [UNBOUNDED]"]))
    source = f"{left.name}{window} AS x {kind} {right.name} AS y ON {on}{where}"
    return f"SELECT {columns} FROM {source} EMIT CHANGES STATE TTL '{draw(st.integers(1, 9))} s'"


@st.composite
def memberships(draw: DrawFn) -> str:
    """Draw IN, EXISTS and values of sub-queries on the stored table: in WHERE, in SELECT, below a window."""
    stream = draw(st.sampled_from(STREAMS))
    of = st.sampled_from(
        [
            "x.item IN (SELECT item FROM items)",
            "x.item NOT IN (SELECT i.item FROM items AS i WHERE i.kind > 1)",
            "nullif(x.n, 1) NOT IN (SELECT kind FROM items WHERE item = x.item)",
            "EXISTS (SELECT 1 FROM items AS i WHERE i.item = x.item AND i.kind < x.n)",
            "NOT EXISTS (SELECT * FROM items WHERE kind = n)",
            "(x.item, n) IN (SELECT item, kind FROM items)",
            "x.n > (SELECT avg(kind) FROM items)",
            "x.n <= (SELECT max(kind) FROM items AS i WHERE i.item = x.item)",
            "(SELECT count(*) FROM items WHERE item = x.item AND kind < 2) = 1",
            "x.n = (SELECT max(kind) - min(i.kind) + 1 FROM items AS i WHERE kind <> 2)",
        ]
    )
    first, second = draw(of), draw(of)
    inner = f"SELECT x.item AS item, x.n AS n FROM {stream.name} AS x WHERE {first} AND ({second} OR n > 2)"
    form = draw(st.integers(0, 2))
    if form == 0:
        return f"SELECT x.item AS item, {first} AS found FROM {stream.name} AS x WHERE {second}"
    if form == 1:
        return f"SELECT item, n FROM ({inner}) AS q WHERE n > 0 AND item <> 'b'"
    names = {field.name: field.type for field in _ITEM_AND_N}
    return draw(_aggregate(f"({inner}) [{draw(_window())}] AS q", names, where=False, ordered=True))


@st.composite
def imputations(draw: DrawFn) -> str:
    """Draw imputations of missing values from the stored table, alone, below a window or in a union."""
    stream = draw(st.sampled_from(STREAMS))
    value = draw(st.sampled_from(["n", "nullif(n, 1)", "nullif(n, n)"]))
    key = draw(
        st.sampled_from(
            ["x.item = items.item", "upper(x.item) = items.item", "lower(x.item) = items.item AND x.n = items.kind"]
        )
    )
    default = draw(st.sampled_from(["", " DEFAULT -1", " DEFAULT x.n + 1"]))
    where = draw(_where(_names(stream)))
    inner = f"SELECT item, IMPUTE({value} USING items.kind ON {key}{default}) AS n FROM {stream.name} AS x{where}"
    form = draw(st.integers(0, 3))
    if form == 0:
        return inner
    if form == 1:
        return f"SELECT item, n FROM ({inner}) AS q WHERE n > 0 AND item <> 'b'"
    if form == 2:
        return f"{inner} UNION ALL SELECT item, n FROM bids"
    return draw(
        _aggregate(
            f"({inner}) [{draw(_window())}] AS q",
            {field.name: field.type for field in _ITEM_AND_N},
            where=False,
            ordered=True,
        )
    )


_ON = "x.item = y.item"


def _create(stream: Stream) -> str:
    columns = ", ".join(f"{field.name} {field.type.value}" for field in stream.schema)
    skew = f" SKEW {stream.skew // SECOND} SECONDS" if stream.skew else ""
    return f"CREATE STREAM {stream.name} ({columns}) TIMESTAMP BY {stream.time_column}{skew} FROM MEMORY"


def _names(stream: Stream) -> dict[str, DataType]:
    return {field.name: field.type for field in stream.schema}


def _of(names: Mapping[str, DataType], *types: DataType) -> list[str]:
    return [name for name, type_ in names.items() if type_ in types]


@st.composite
def _integer(draw: DrawFn, names: Mapping[str, DataType], depth: int = 2) -> str:
    leaf = st.sampled_from(_of(names, Type.INT, Type.BIGINT)) | st.integers(0, 5).map(str)
    if depth == 0 or draw(st.booleans()):
        return draw(leaf)
    first, second = draw(_integer(names, depth - 1)), draw(_integer(names, depth - 1))
    form = draw(
        st.sampled_from(
            [
                "({} + {})",
                "({} - {})",
                "({} * {})",
                "({} % {})",
                "coalesce({}, {})",
                "greatest({}, {})",
                "nullif({}, {})",
            ]
        )
    )
    return form.format(first, second)


@st.composite
def _condition(draw: DrawFn, names: Mapping[str, DataType], depth: int = 2) -> str:
    if depth > 0 and draw(st.integers(0, 2)) == 0:
        first, second = draw(_condition(names, depth - 1)), draw(_condition(names, depth - 1))
        return draw(st.sampled_from(["({} AND {})", "({} OR {})", "NOT ({} AND {})"])).format(first, second)
    forms = [
        "item = 'a'",
        "item <> 'b'",
        "item IS NULL",
        "item IS NOT NULL",
        "item IN ('a', 'b')",
        "item LIKE 'a%'",
        "n BETWEEN 1 AND 3",
        "length(item) > 0",
        "CASE WHEN n > 2 THEN item = 'a' ELSE n < 0 END",
    ]
    forms += [f"{name} > 1.5" for name in _of(names, Type.DOUBLE)] + _of(names, Type.BOOLEAN)
    comparison = st.builds(
        "{} {} {}".format, _integer(names, 1), st.sampled_from(["=", "<>", "<", ">="]), _integer(names, 1)
    )
    return draw(st.sampled_from(forms) | comparison)


@st.composite
def _scalar(draw: DrawFn, names: Mapping[str, DataType]) -> str:
    fixed = [
        "item",
        "upper(item)",
        "item || '-' || n",
        "n / 2",
        "CAST(n AS DOUBLE)",
        "CAST(n AS STRING)",
        "CASE WHEN n > 1 THEN 'big' ELSE item END",
    ]
    fixed += [f"{name} * 2 + n" for name in _of(names, Type.DOUBLE)]
    return draw(st.sampled_from(fixed) | _integer(names) | _condition(names, 1).map(lambda text: f"({text})"))


@st.composite
def _where(draw: DrawFn, names: Mapping[str, DataType]) -> str:
    return f" WHERE {draw(_condition(names))}" if draw(st.booleans()) else ""


@st.composite
def _unordered_window(draw: DrawFn) -> str:
    """Draw a window whose content does not depend on the order of tuples with equal timestamps."""
    size, slide = draw(st.integers(1, 10)), draw(st.integers(1, 6))
    forms = [
        f"RANGE {size} SECONDS",
        f"RANGE {size} SECONDS SLIDE {slide} SECONDS",
        f"RANGE {size * slide} SECONDS STEP {slide} SECONDS",
        f"SESSION {slide} SECONDS",
        f"UNBOUNDED SLIDE {size} SECONDS",
        "NOW",
    ]
    return draw(st.sampled_from([*forms, f"LANDMARK FROM '1970-01-01 00:00:0{slide}' SLIDE {size} SECONDS"]))


@st.composite
def _window(draw: DrawFn) -> str:
    size, slide = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rows = f"ROWS {size} SLIDE {slide}"
    ordered = [f"RANGE {size} SECONDS SLIDE TUPLE", "UNBOUNDED", rows, f"ROWS {size}", f"PARTITION BY item {rows}"]
    ordered += ["WHILE n > 0", "PARTITION BY item WHILE n < 3"]
    return draw(_unordered_window() | st.sampled_from(ordered))


@st.composite
def _aggregate(draw: DrawFn, source: str, names: Mapping[str, DataType], *, where: bool, ordered: bool) -> str:
    key = draw(st.sampled_from(["", "item", "n % 2"]))
    number = draw(st.sampled_from(_of(names, Type.BIGINT, Type.INT, Type.DOUBLE)))
    choices = [
        "count(*)",
        "count(item)",
        f"sum({number})",
        f"avg({number})",
        f"min({number})",
        "max(item)",
        f"stddev({number})",
        "count(DISTINCT item)",
        f"median({number})",
        f"percentile({number}, 0.25)",
        f"percentile_approx({number}, 0.75)",
        "approx_count_distinct(item)",
        f"var_pop({number})",
        f"sum(DISTINCT {number})",
        f"max_by(item, {number})",
        f"bool_or({number} > 2)",
        f"min({number}) FILTER (WHERE item IS NOT NULL)",
        "mode(item)",
    ]
    choices += [f"sum({number} + 1)", f"sum({number}) + count(*)"] + (
        ["first(item)", f"last({number})"] if ordered else []
    )
    calls = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True))
    columns = ([f"{key} AS k"] if key else []) + [f"{call} AS a{i}" for i, call in enumerate(calls)]
    columns += draw(st.sampled_from([[], ["window_start", "window_end"], ["window_end AS w"]]))
    group = f" GROUP BY {key}" if key else ""
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1", f" HAVING max({number}) > 2"]))
    return f"SELECT {', '.join(columns)} FROM {source}{draw(_where(names)) if where else ''}{group}{having}"


@st.composite
def _joined(draw: DrawFn, stream: Stream, alias: str) -> str:
    size = draw(st.integers(1, 6))
    window = draw(
        st.sampled_from(
            [f"RANGE {size} SECONDS"] * 3 + ["NOW", "UNBOUNDED", f"ROWS {size}", f"PARTITION BY item ROWS {size}"]
        )
    )
    return f"{stream.name} [{window}] AS {alias}"
