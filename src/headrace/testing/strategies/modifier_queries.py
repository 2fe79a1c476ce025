"""Hypothesis strategies for queries with stream modifiers and suppressors, over the streams of `queries`."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

_WHERE = ["", "", " WHERE n > 0", " WHERE item <> 'b'", " WHERE n IS NOT NULL"]
_CARRIED = ["item", "n", "at", "rowtime", "OLD(n) AS o", "NEW(item) AS w", "OLD(at) AS oa", "n + 1 AS m"]


@st.composite
def modifiers(draw: DrawFn) -> str:
    """Draw comparisons of consecutive tuples of a stream or a union, by partition or all together."""
    by = draw(st.sampled_from(["", " OVER (PARTITION BY item)", " OVER (PARTITION BY item, n % 2)", " OVER ()"]))
    profile = draw(st.sampled_from(["", " OLD", " NEW"]))
    pseudo = draw(st.sampled_from(["", " PSEUDO 0.5", " PSEUDO 1"]))
    forms = ["DIFF(n{o})", "DIFF(at{o})", "RDIFF(n{p}{o})", "SLOPE(n, n * 2{p}{o})", "SLOPE(n, unix_seconds(at){p}{o})"]
    calls = [
        f"{draw(st.sampled_from(forms)).format(p=pseudo, o=profile)}{by} AS d{i}"
        for i in range(draw(st.integers(1, 2)))
    ]
    columns = draw(st.lists(st.sampled_from(_CARRIED), max_size=3, unique=True))
    union = "(SELECT at, item, n FROM bids UNION ALL SELECT at, item, n FROM moves) AS u"
    source = draw(st.sampled_from(["bids", "asks", "moves", union]))
    having = draw(
        st.sampled_from(["", "", " HAVING d0 IS NOT NULL", f" HAVING DIFF(n{profile}){by} > 0", " HAVING item = 'a'"])
    )
    return f"SELECT {', '.join([*columns, *calls])} FROM {source}{draw(st.sampled_from(_WHERE))}{having}"


@st.composite
def window_modifiers(draw: DrawFn) -> str:
    """Draw the first and the last tuple of each window compared."""
    size, slide = draw(st.integers(1, 10)), draw(st.integers(1, 6))
    windows = [
        f"RANGE {size} SECONDS",
        f"RANGE {size} SECONDS SLIDE {slide} SECONDS",
        f"SESSION {slide} SECONDS",
        f"RANGE {size} SECONDS SLIDE TUPLE",
    ]
    windows += [
        f"ROWS {size} SLIDE {slide}",
        f"PARTITION BY item ROWS {size}",
        "WHILE n > 0",
        f"UNBOUNDED SLIDE {size} SECONDS",
    ]
    profile = draw(st.sampled_from(["", " OLD", " NEW"]))
    call = draw(
        st.sampled_from(
            ["WDIFF(n{o})", "WRDIFF(n PSEUDO 0.5{o})", "WSLOPE(n, unix_seconds(at) PSEUDO 1{o})", "WRDIFF(n{o})"]
        )
    )
    key = draw(st.sampled_from(["", "item", "n % 2"]))
    columns = ([f"{key} AS k"] if key else []) + draw(
        st.lists(st.sampled_from([*_CARRIED, "count(*) AS c", "window_end"]), max_size=2, unique=True)
    )
    having = draw(st.sampled_from(["", "", " HAVING d > 0", " HAVING count(*) > 2", " HAVING WDIFF(n) < 1"]))
    source = f"{draw(st.sampled_from(['bids', 'asks', 'moves']))} [{draw(st.sampled_from(windows))}]"
    where, group = draw(st.sampled_from(_WHERE)), f" GROUP BY {key}" if key else ""
    return f"SELECT {', '.join([*columns, f'{call.format(o=profile)} AS d'])} FROM {source}{where}{group}{having}"


@st.composite
def suppressions(draw: DrawFn) -> str:
    """Draw repetitions suppressed by count or by time."""
    profile = draw(st.sampled_from(["", " OLD", " NEW"]))
    size, time = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    actions = [
        "lower(item)",
        "CASE WHEN n > 2 THEN 'clean' WHEN n > 0 THEN 'update' ELSE 'new' END",
        "CASE WHEN n < 1 THEN 'Clean' END",
    ]
    timed = f"TSUPPRESS({time} SECONDS, {draw(st.sampled_from(actions))}{profile})"
    counted = f"RSUPPRESS({draw(st.integers(1, 3))}{profile})"
    rule, window = draw(
        st.sampled_from([(timed, f" [RANGE {size} SECONDS]"), (counted, f" [RANGE {size} SECONDS]"), (counted, "")])
    )
    group = draw(st.sampled_from(["", " GROUP BY item", " GROUP BY n % 2", " GROUP BY item, n > 1"]))
    columns = draw(st.lists(st.sampled_from([*_CARRIED, "OLD(rowtime) AS r"]), min_size=1, max_size=3, unique=True))
    also = draw(st.sampled_from(["", "", " AND n > 0", " AND OLD(n) <> 1"]))
    union = f"(SELECT at, item, n FROM bids UNION ALL SELECT at, item, n FROM moves){window} AS u"
    source = draw(st.sampled_from([f"bids{window}", f"asks{window}", f"moves{window}", union]))
    return f"SELECT {', '.join(columns)} FROM {source}{draw(st.sampled_from(_WHERE))}{group} HAVING {rule}{also}"
