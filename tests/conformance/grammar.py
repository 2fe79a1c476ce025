"""Random statements that Headrace and DuckDB both understand, in the manner of SQLsmith: typed, nested, seeded.

Left out is what the two define differently on purpose: overflow, division by zero, casts of texts that are no numbers.
"""

from __future__ import annotations

import random
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["I", "R", "T", "B"]
#: Columns of the stream by kind; `m` is a DECIMAL, which is compared as a number.
COLUMNS: dict[Kind, tuple[str, ...]] = {"I": ("i", "j"), "R": ("d", "m"), "T": ("t", "w"), "B": ("b",)}
WINDOW = "[RANGE 1 DAY]"
_TEXTS = ("''", "'a'", "'ab'", "'B'", "'x y'", "'%'")
_PATTERNS = ("'a%'", "'%b'", "'_'", "'%'", "'%x%'", "''")


class Grammar:
    """Draws statements; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._prefix = ""

    def statement(self) -> tuple[str, str]:
        """Return the kinds of the results' columns, and a statement."""
        shapes = (
            (self._plain, 5), (self._aggregate, 6), (self._distinct, 2), (self._nested, 3), (self._union, 2),
            (self._table, 3), (self._joined, 2), (self._top, 2), (self._ranked, 2), (self._unnested, 2),
        )  # fmt: skip
        shape = self._chance.choices([made for made, _ in shapes], [weight for _, weight in shapes])[0]
        return shape()

    def sub_query(self) -> tuple[str, str]:
        """Return a statement with a sub-query for a value, of all rows of the table or of those of a key."""
        call = self._chance.choice(
            ("count(*)", "max(k)", "min(k)", "sum(k)", "count(name)", "max(k) - min(k)", "avg(k)")
        )
        conditions = self._chance.sample(("u.k = s.i", "u.name = s.t", f"k > {self._chance.randrange(4)}"), 2)
        kept = conditions[: self._chance.randrange(3)]
        value = f"(SELECT {call} FROM u{' WHERE ' if kept else ''}{' AND '.join(kept)})"
        kinds, columns = self._columns(most=2)
        if self._chance.random() < 0.5:
            return f"{kinds}{'R' if call == 'avg(k)' else 'I'}", f"SELECT {columns}, {value} AS v FROM s{self._where()}"
        compared = f"{self._expr('I')} {self._chance.choice(('<', '>=', '=', '<>'))} {value}"
        more = self._chance.choice(("", "", f" OR {self._expr('B')}", f" AND {self._expr('B')}"))
        return kinds, f"SELECT {columns} FROM s WHERE {compared}{more}"

    def window_function(self) -> tuple[str, str]:
        """Return a statement with functions of the places, or of frames, of the rows of a window."""
        order = ", ".join(f"{name}{self._chance.choice(('', ' DESC'))}" for name in ("d", "t", "i"))
        by = self._chance.choice(("PARTITION BY i ", "PARTITION BY w ", "PARTITION BY b, w ", ""))
        window = f"OVER ({by}ORDER BY {order}, j, m, w, b"
        low = self._chance.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW"))
        high = self._chance.choice(("UNBOUNDED FOLLOWING", "1 FOLLOWING", "CURRENT ROW"))
        frame = self._chance.choice(("", f" ROWS BETWEEN {low} AND {high}"))
        if frame == "" and self._chance.random() < 0.3:
            frame = " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
        chosen: list[tuple[str, str]] = [
            ("I", f"{self._chance.choice(('rank', 'dense_rank', 'row_number'))}() {window})"),
            ("I", f"ntile({self._chance.randint(1, 5)}) {window})"),
            ("R", f"{self._chance.choice(('percent_rank', 'cume_dist'))}() {window})"),
            ("I", f"{self._chance.choice(('lag', 'lead'))}(j, {self._chance.randint(0, 3)}) {window})"),
            ("T", f"lead(t, 1, 'none') {window})"),
            ("T", f"{self._chance.choice(('first_value', 'last_value'))}(t) {window}{frame})"),
            ("I", f"nth_value(i, {self._chance.randint(1, 3)}) {window}{frame})"),
            ("I", f"{self._chance.choice(('sum', 'min', 'max', 'count'))}(i) {window}{frame})"),
            ("R", f"{self._chance.choice(('sum', 'avg', 'max'))}(d) {window}{frame})"),
            ("R", f"avg(d) OVER ({by.strip()})"),
            ("I", f"count(*) {window}{frame})"),
            ("I", f"i - max(i) OVER ({by.strip()})"),
        ]
        made = self._chance.sample(chosen, self._chance.randint(1, 3))
        kinds = "".join(kind for kind, _ in made)
        shown = ", ".join(f"{text} AS c{n}" for n, (_, text) in enumerate(made))
        return f"IT{kinds}", f"SELECT i, t, {shown} FROM s {WINDOW}{self._where()}"

    def totals(self) -> tuple[str, str]:
        """Return a statement that aggregates the results of a window once more, by the end of the window."""
        kinds = {"i": "I", "t": "T", "w": "T", "b": "B"}
        keys = self._chance.sample(tuple(kinds), self._chance.randint(1, 3))
        kept = keys[: self._chance.randrange(2)]
        inner = self._chance.choice(("count(*)", "sum(j)", "max(i)", "count(DISTINCT t)", "min(j) FILTER (WHERE b)"))
        outer = self._chance.sample(("sum(n)", "max(n)", "min(n)", "count(n)", "count(*)"), self._chance.randint(1, 3))
        results = f"SELECT {', '.join(keys)}, {inner} AS n, window_end AS until FROM s {WINDOW}{self._where()}"
        shown = ", ".join([*kept, *(f"{call} AS c{number}" for number, call in enumerate(outer))])
        return (
            "".join(kinds[key] for key in kept) + "I" * len(outer),
            f"SELECT {shown} FROM ({results} GROUP BY {', '.join(keys)}) AS g GROUP BY {', '.join(['until', *kept])}",
        )

    def money(self) -> tuple[str, str]:
        """Return a statement with quotients, medians and percentiles of DECIMALs, and approximate aggregates."""
        if self._chance.random() < 0.4:
            made = [f"{self._quotient()} AS c{n}" for n in range(self._chance.randint(1, 3))]
            return f"I{'R' * len(made)}", f"SELECT i, {', '.join(made)} FROM s{self._where()}"
        share = self._chance.choice((0.0, 0.1, 0.25, 0.5, 0.9, 1.0))
        calls = (
            ("R", "median(m)"), ("R", f"percentile(m, {share})"), ("R", f"max({self._quotient()})"),
            ("R", f"avg({self._quotient()})"), ("R", f"percentile_approx(m, {share})"),
            ("I", f"percentile_approx({self._chance.choice('ij')}, {share})"), ("R", f"approx_percentile(d, {share})"),
            ("I", f"approx_count_distinct({self._chance.choice('ijdmtwb')})"),
        )  # fmt: skip
        chosen = self._chance.sample(calls, self._chance.randint(1, 3))
        shown = ", ".join(f"{call} AS a{n}" for n, (_, call) in enumerate(chosen))
        key = self._chance.choice(("i", "t", "w"))
        kinds = f"{'I' if key == 'i' else 'T'}{''.join(kind for kind, _ in chosen)}"
        return kinds, f"SELECT {key} AS k, {shown} FROM s {WINDOW}{self._where()} GROUP BY {key}"

    def offset(self) -> tuple[str, str]:
        """Return an aggregate over windows that do not begin at full hours."""
        size = self._chance.choice((5, 12, 20, 30, 60, 240))
        window = f"[RANGE {size} MINUTES OFFSET {self._chance.randrange(size)} MINUTES]"
        kind, call = self._call()
        key, named = self._chance.choice((("", ""), ("i", "i AS k, "), ("b", "b AS k, ")))
        start = "60 * hour(window_start) + minute(window_start) AS w"
        group = f"window_start, {key}" if key else "window_start"
        text = f"SELECT {named}{start}, {call} AS a FROM s {window}{self._where()} GROUP BY {group}"
        return f"{'B' if key == 'b' else key.upper()}I{kind}", text

    def ordered(self) -> tuple[str, str]:
        """Return a statement with aggregates whose values have an order of their own."""
        made = []
        for _ in range(self._chance.randint(1, 3)):
            x, y = self._expr("T", 1), self._expr(self._chance.choice("IRTB"), 1)  # type: ignore[arg-type]
            ways = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST", " ASC NULLS FIRST")
            by = f"ORDER BY {y}{self._chance.choice(ways)}, at{self._chance.choice(('', ' DESC'))}"
            call = self._chance.choice(
                (
                    f"string_agg({x}, '|' {by})", f"first({x} {by})", f"last({x} {by})",
                    f"string_agg(DISTINCT {x}, '|' ORDER BY {x}{self._chance.choice(('', ' DESC'))})",
                )
            )  # fmt: skip
            kept = f" FILTER (WHERE {self._expr('B', 1)})" if self._chance.random() < 0.3 else ""
            made.append(f"{call}{kept}")
        key = self._chance.choice(("i", "w", "b"))
        shown = ", ".join(f"{call} AS a{n}" for n, call in enumerate(made))
        kinds = f"{'I' if key == 'i' else 'B' if key == 'b' else 'T'}{'T' * len(made)}"
        return kinds, f"SELECT {key} AS k, {shown} FROM s {WINDOW}{self._where()} GROUP BY {key}"

    def shadowed(self) -> tuple[str, str]:
        """Return a statement whose SELECT gives names that its input has, in OVER and GROUPING SETS."""
        shown = f"{self._expr('I', 1)} AS j, {self._expr('T', 1)} AS w, {self._expr('I', 1)} AS i"
        if self._chance.random() < 0.6:
            by = self._chance.choice(("i", "w", "j", "b", "i, w"))
            call = self._chance.choice(("count(*)", "max(j)", "min(w)", "sum(i)", "count(DISTINCT j)", "max(m)"))
            order = "ORDER BY i, j DESC, w, t, d, m, b, at"
            place = self._chance.choice(("row_number()", "rank()", "lag(j)", "lead(i, 2)"))
            made = f"{call} OVER (PARTITION BY {by}) AS x, {place} OVER (PARTITION BY {by} {order}) AS y"
            kind = {"min(w)": "T", "max(m)": "R"}.get(call, "I")
            return f"ITI{kind}I", f"SELECT {shown}, {made} FROM s {WINDOW}{self._where()}"
        keys = self._chance.sample(("i", "j", "w"), 2)
        form = self._chance.choice(("ROLLUP({})", "CUBE({})", "GROUPING SETS (({}), ())")).format(", ".join(keys))
        kinds = "".join("T" if key == "w" else "I" for key in keys)
        calls = f"count({keys[0]}) AS {keys[1]}, max(b) AS t, grouping({keys[0]}) AS w0"
        names = f"{keys[0]} AS k0, {keys[1]} AS {keys[0]}"
        return f"{kinds}IBI", f"SELECT {names}, {calls} FROM s {WINDOW} GROUP BY {form} HAVING count(*) > 0"

    def frame(self) -> tuple[str, str]:
        """Return a statement with extremes of DECIMALs, times and texts over frames of the rows of a window."""
        order = f"ORDER BY at{self._chance.choice(('', ' DESC'))}"
        by = self._chance.choice(("", "PARTITION BY i ", "PARTITION BY b "))
        made = []
        for _ in range(self._chance.randint(1, 3)):
            low = self._chance.choice(("UNBOUNDED PRECEDING", "3 PRECEDING", "1 PRECEDING", "CURRENT ROW"))
            high = self._chance.choice(("UNBOUNDED FOLLOWING", "2 FOLLOWING", "CURRENT ROW"))
            kind, x = self._chance.choice(
                (("R", "m"), ("R", "m * 2"), ("R", "CAST(m AS DECIMAL(30, 4))"), ("I", "hour(at)"), ("T", "t"))
            )
            call = f"{self._chance.choice(('min', 'max'))}({x})"
            kept = f" FILTER (WHERE {self._expr('B', 1)})" if self._chance.random() < 0.3 else ""
            made.append((kind, f"{call}{kept} OVER ({by}{order} ROWS BETWEEN {low} AND {high})"))
        shown = ", ".join(f"{text} AS c{n}" for n, (_, text) in enumerate(made))
        return f"I{''.join(kind for kind, _ in made)}", f"SELECT i, {shown} FROM s {WINDOW}{self._where()}"

    def untyped(self) -> tuple[str, str]:
        """Return a UNION whose parts have NULL where another part has a value."""
        kinds: list[Kind] = [self._chance.choice(("I", "R", "T", "B")) for _ in range(self._chance.randint(2, 4))]
        parts = []
        lacking = [self._chance.randrange(3) for _ in kinds]  # 2: no part lacks it
        for part in range(2):
            columns = [
                "NULL" if lack == part else self._expr(kind, 1) for kind, lack in zip(kinds, lacking, strict=True)
            ]
            shown = ", ".join(f"{text} AS c{n}" for n, text in enumerate(columns))
            parts.append(f"SELECT {shown} FROM s{self._where()}")
        return "".join(kinds), " UNION ALL ".join(parts)

    def _quotient(self) -> str:
        x = self._chance.choice(
            ("m", "(m + m)", "(m * 3)", "(m - 1)", "abs(m)", "coalesce(m, CAST(0 AS DECIMAL(8, 2)))")
        )
        y = self._chance.choice((str(self._chance.randint(2, 9)), "(abs(m) + 1)", "CAST(0.75 AS DECIMAL(4, 2))"))
        return f"({x} / {y})"

    def _plain(self) -> tuple[str, str]:
        kinds, columns = self._columns()
        return kinds, f"SELECT {columns} FROM s{self._where()}"

    def _distinct(self) -> tuple[str, str]:
        kinds, columns = self._columns(most=2)
        return kinds, f"SELECT DISTINCT {columns} FROM s {WINDOW}{self._where()}"

    def _aggregate(self, source: str = f"s {WINDOW}") -> tuple[str, str]:
        keys = [self._kind_of(depth=1) for _ in range(self._chance.randrange(3))]
        calls = [self._call() for _ in range(self._chance.randint(1, 3))]
        shown = [f"{text} AS k{n}" for n, (_, text) in enumerate(keys)]
        shown += [f"{text} AS a{n}" for n, (_, text) in enumerate(calls)]
        text = f"SELECT {', '.join(shown)} FROM {source}{self._where()}"
        plain = True
        if keys:
            names = ", ".join(text for _, text in keys)
            form = self._chance.choice(("{}", "{}", "{}", "ROLLUP({})", "CUBE({})", "GROUPING SETS (({}), ())"))
            plain = form == "{}" or len({text for _, text in keys}) < len(keys)
            text += f" GROUP BY {names if plain else form.format(names)}"
        if not keys or not plain or self._chance.random() < 0.3:  # a window without tuples has no result
            text += f" HAVING count(*) > {self._chance.randrange(3)}"
        return "".join(kind for kind, _ in (*keys, *calls)), text

    def _nested(self) -> tuple[str, str]:
        """Aggregate or filter a sub-query or a relation of WITH."""
        inner = f"SELECT i, {self._expr('I')} AS j, d, {self._expr('R')} AS m, t, {self._expr('T')} AS w, b, at FROM s"
        inner += self._where()
        if self._chance.random() < 0.5:
            kinds, text = self._aggregate(f"({inner}) {WINDOW} AS q")
            return kinds, text
        kinds, columns = self._columns()
        if self._chance.random() < 0.5:
            return kinds, f"WITH q AS ({inner}) SELECT {columns} FROM q{self._where()}"
        return kinds, f"SELECT {columns} FROM ({inner}) AS q{self._where()}"

    def _union(self) -> tuple[str, str]:
        kinds = [self._chance.choice("IRTB") for _ in range(self._chance.randint(1, 3))]
        parts = []
        for _ in range(2):
            shown = ", ".join(f"{self._expr(kind)} AS c{n}" for n, kind in enumerate(kinds))  # type: ignore[arg-type]
            parts.append(f"SELECT {shown} FROM s{self._where()}")
        return "".join(kinds), " UNION ALL ".join(parts)

    def _table(self) -> tuple[str, str]:
        kind = self._chance.choice(("JOIN", "LEFT JOIN"))
        more = f" AND {self._chance.choice(('name', 's.t'))} {self._chance.choice(('<>', '>='))} 'a'"
        on = f"s.i = u.k{more if self._chance.random() < 0.4 else ''}"
        if self._chance.random() < 0.4:
            call, name = self._call(), "u.name"
            where = self._where()
            text = f"SELECT {name} AS k, {call[1]} AS a FROM s {WINDOW} {kind} u ON {on}{where} GROUP BY {name}"
            return f"T{call[0]}", text
        kinds, columns = self._columns(most=2)
        return f"{kinds}TI", f"SELECT {columns}, u.name AS n, u.k AS k FROM s {kind} u ON {on}{self._where()}"

    def _joined(self) -> tuple[str, str]:
        kind = self._chance.choice(("JOIN", "JOIN", "LEFT JOIN"))
        key = self._chance.choice(("i", "j", "t", "w"))
        more = self._chance.choice(("", "", " AND p.d < q.d", " AND p.t <> q.w", " AND p.b = q.b"))
        return "IRTB", (
            f"SELECT p.i AS a, q.d AS e, p.t AS f, q.b AS g FROM s {WINDOW} AS p {kind} s {WINDOW} AS q "
            f"ON p.{key} = q.{key}{more}"
        )

    def _top(self) -> tuple[str, str]:
        kinds, columns = self._columns(most=3)
        names = [f"c{n}{self._chance.choice(('', ' DESC'))}" for n in range(len(kinds))]
        self._chance.shuffle(names)
        inner = f"SELECT {columns} FROM s{self._where()}"
        limit = self._chance.randint(1, 6)
        return kinds, f"SELECT * FROM ({inner}) {WINDOW} AS q ORDER BY {', '.join(names)} LIMIT {limit}"

    def _ranked(self) -> tuple[str, str]:
        function = self._chance.choice(("row_number", "rank", "dense_rank"))
        order = ", ".join(f"{name}{self._chance.choice(('', ' DESC'))}" for name in ("d", "t", "i"))
        key = self._chance.choice(("i", "w", "b"))
        return "IRTTB", (
            f"SELECT i, d, t, w, b FROM s {WINDOW} QUALIFY {function}() OVER "
            f"(PARTITION BY {key} ORDER BY {order}, j, m, w, b) <= {self._chance.randint(1, 3)}"
        )

    def _unnested(self) -> tuple[str, str]:
        if self._chance.random() < 0.5:
            return "II", f"SELECT i, x FROM s CROSS JOIN UNNEST(xs) AS v(x){self._where()}"
        return "III", (
            f"SELECT x, count(*) AS n, sum(i) AS a FROM s {WINDOW} CROSS JOIN UNNEST(xs) AS v(x){self._where()} "
            "GROUP BY x"
        )

    def _columns(self, most: int = 4) -> tuple[str, str]:
        made = [self._kind_of(depth=3) for _ in range(self._chance.randint(1, most))]
        return "".join(kind for kind, _ in made), ", ".join(f"{text} AS c{n}" for n, (_, text) in enumerate(made))

    def _kind_of(self, depth: int) -> tuple[Kind, str]:
        kind: Kind = self._chance.choice(("I", "I", "R", "T", "B"))
        return kind, self._expr(kind, depth)

    def _where(self) -> str:
        return f" WHERE {self._expr('B', 2)}" if self._chance.random() < 0.5 else ""

    def _call(self) -> tuple[Kind, str]:
        kind: Kind = self._chance.choice(("I", "R", "T", "B"))
        x = self._expr(kind, 1)
        calls: list[tuple[Kind, str]] = [("I", "count(*)"), ("I", f"count({x})"), ("I", f"count(DISTINCT {x})")]
        calls += [(kind, f"min({x})"), (kind, f"max({x})")] if kind != "B" else []
        if kind in "IR":
            calls += [(kind, f"sum({x})"), ("R", f"avg({x})"), ("R", f"stddev({x})"), ("R", f"var_pop({x})")]
            calls += [("R", f"median(CAST({x} AS DOUBLE))"), (kind, f"sum(DISTINCT {x})")]
        if kind == "B":
            calls += [("B", f"bool_and({x})"), ("B", f"bool_or({x})")]
        chosen, text = self._chance.choice(calls)
        return chosen, f"{text} FILTER (WHERE {self._expr('B', 1)})" if self._chance.random() < 0.25 else text

    def _expr(self, kind: Kind, depth: int = 2) -> str:
        if depth == 0 or self._chance.random() < 0.25:
            return self._leaf(kind)
        match kind:
            case "I":
                return self._integer(depth - 1)
            case "R":
                return self._real(depth - 1)
            case "T":
                return self._text(depth - 1)
            case "B":
                return self._condition(depth - 1)

    def _leaf(self, kind: Kind) -> str:
        if self._chance.random() < 0.75:
            return self._chance.choice(COLUMNS[kind])
        match kind:
            case "I":
                return str(self._chance.randint(0, 9))
            case "R":
                return f"CAST({self._chance.randint(0, 40) / 4} AS DOUBLE)"
            case "T":
                return self._chance.choice(_TEXTS)
            case "B":
                return self._chance.choice(("TRUE", "FALSE"))

    def _either(self, kind: Kind, depth: int) -> str:
        """Return what all kinds have: CASE, coalesce, nullif, greatest, least."""
        x, y = self._expr(kind, depth), self._expr(kind, depth)
        forms = (
            f"CASE WHEN {self._expr('B', depth)} THEN {x} ELSE {y} END",
            f"CASE WHEN {self._expr('B', depth)} THEN {x} END",
            f"coalesce({x}, {y})",
            f"nullif({x}, {y})",
        )
        return self._chance.choice(forms)

    def _integer(self, depth: int) -> str:
        x, y = self._expr("I", depth), self._expr("I", depth)
        text = self._expr("T", depth)
        return self._chance.choice(
            (
                f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} % {self._chance.randint(2, 7)})", f"abs({x})",
                f"(-{x})", f"length({text})", f"strpos({text}, 'b')", f"ascii({text})", f"greatest({x}, {y})",
                f"least({x}, {y})", "hour(at)", "minute(at)", "day(at)", f"CAST({self._expr('B', depth)} AS INT)",
                self._either("I", depth),
            )
        )  # fmt: skip

    def _real(self, depth: int) -> str:
        x, y = self._expr("R", depth), self._expr("R", depth)
        return self._chance.choice(
            (
                f"({x} + {y})", f"({x} - {y})", f"({x} * {self._chance.randint(1, 4)})", f"abs({x})", f"(-{x})",
                f"(CAST({x} AS DOUBLE) / {self._chance.randint(2, 8)})", f"CAST({self._expr('I', depth)} AS DOUBLE)",
                f"floor(CAST({x} AS DOUBLE))", f"ceil(CAST({x} AS DOUBLE))", f"sqrt(abs({x}))",
                f"greatest(CAST({x} AS DOUBLE), CAST({y} AS DOUBLE))", self._either("R", depth),
            )
        )  # fmt: skip

    def _text(self, depth: int) -> str:
        x, n = self._expr("T", depth), self._chance.randint(0, 4)
        return self._chance.choice(
            (
                f"upper({x})", f"lower({x})", f"({x} || {self._expr('T', depth)})", f"substr({x}, {n + 1}, 2)",
                f"replace({x}, 'a', 'zz')", f"trim({x})", f"reverse({x})", f"left({x}, {n})", f"right({x}, {n})",
                f"lpad({x}, {n}, '*')", f"rpad({x}, {n}, '-')", f"repeat({x}, {n})",
                f"CAST({self._expr('I', depth)} AS VARCHAR)", self._either("T", depth),
            )
        )  # fmt: skip

    def _condition(self, depth: int) -> str:
        kind: Kind = self._chance.choice(("I", "R", "T"))
        x, y, z = (self._expr(kind, depth) for _ in range(3))
        p, q = self._expr("B", depth), self._expr("B", depth)
        sign = self._chance.choice(("=", "<>", "<", "<=", ">", ">="))
        return self._chance.choice(
            (
                f"({x} {sign} {y})", f"({x} {sign} {y})", f"({p} AND {q})", f"({p} OR {q})", f"(NOT {p})",
                f"({x} IS NULL)", f"({x} IS NOT NULL)", f"({x} IN ({y}, {z}))", f"({x} BETWEEN {y} AND {z})",
                f"({self._expr('T', depth)} LIKE {self._chance.choice(_PATTERNS)})",
                f"({x} IS NOT DISTINCT FROM {y})", f"starts_with({self._expr('T', depth)}, 'a')",
                self._either("B", depth),
            )
        )  # fmt: skip
