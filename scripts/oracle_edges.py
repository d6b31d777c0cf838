"""Random queries over the edges of values: NULL logic, comparisons, joins, aggregates, windows, sets, deletes and updates.

Does: make tables whose columns hold NULL, -0.0, NaN, infinities, the greatest and smallest integers, empty and foreign
texts, and queries over them that PostgreSQL, DuckDB and Nilometer read alike. Two of the tables have the same names of
columns, so that joins have to tell them apart.
Does not: ask anybody; oracle.py does. A query that may be refused for a number that does not fit is marked as such.
"""

import random

INTEGER, FLOAT, BOOLEAN, TEXT, TIME = "integer", "float", "boolean", "text", "time"

# `id` is unique in its table, `i` small, `n` has the greatest and smallest, `w` is only compared, never added up.
POINTS = {"time": TIME, "h": TEXT, "g": TEXT, "id": INTEGER, "i": INTEGER, "n": INTEGER, "v": FLOAT, "w": FLOAT, "b": BOOLEAN, "s": TEXT}
TABLES = {
    "a": POINTS,
    "b": POINTS,
    "r": {"id": INTEGER, "i": INTEGER, "n": INTEGER, "v": FLOAT, "b": BOOLEAN, "s": TEXT, "h": TEXT},
}
TAGS = {"h", "g"}
ROWS = {"a": 26, "b": 20, "r": 12}
START = 1767225600

INTEGERS = [-1, 0, 1, 2, 3]
EXTREMES = [-(2**63), 2**63 - 1, 0, -1, 1, 2**53, 2**53 + 1, 2**63 - 2]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1.5, 2.0, 3.0, float("nan"), float("inf"), float("-inf")]
FAR_FLOATS = [1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 0.0, -0.0, 0.1, float("nan"), float("inf"), float("-inf"), 9007199254740993.0]
TEXTS = ["", " ", "a", "A", "b", "ab", "a%", "a_", "\u00e4", "\u00df", "\u65e5\u672c", "\U0001f600", "1", "NULL", "it's"]
HOSTS = ["x", "y", "z", "X", "\u00e4"]


class Data:
    """Rows of all tables."""

    def __init__(self, rng):
        self.rng = rng
        self.rows = {name: [self.row(name, at) for at in range(count)] for name, count in ROWS.items()}

    def null(self, value, share=0.2):
        return None if self.rng.random() < share else value

    def row(self, table, at):
        made = {
            # Few times, so that rows of two tables meet.
            "time": START + 3600 * self.rng.randrange(12),
            "h": self.null(self.rng.choice(HOSTS)),
            "g": self.null(self.rng.choice(["x", "y"]), 0.4),
            "id": at + 1,
            "i": self.null(self.rng.choice(INTEGERS)),
            "n": self.null(self.rng.choice(EXTREMES)),
            "v": self.null(self.rng.choice(FLOATS)),
            "w": self.null(self.rng.choice(FAR_FLOATS)),
            "b": self.null(self.rng.random() < 0.5, 0.3),
            "s": self.null(self.rng.choice(TEXTS)),
        }
        return [made[column] for column in TABLES[table]]


class Made:
    """A query, what is done before it, and whether its rows have an order or a number in it may be too large."""

    def __init__(self, query, ordered=False, before=(), strict=False):
        self.query, self.ordered, self.before, self.strict = query, ordered, list(before), strict


class Query:
    """One random query. `/i` stands for the division of integers and is written as each dialect has it."""

    def __init__(self, rng):
        self.rng = rng
        # Conditions come back to one column: what is wrong with NOT IN shows where one column is asked twice.
        self.topic = self.one("i", "i", "n", "v", "v", "s", "h", "b", "g", "w")

    def one(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def columns(self, tables, kind=None):
        return [(alias, column) for alias, table in tables for column, of in TABLES[table].items() if kind in (None, of)]

    def column(self, tables, kind=None):
        """A column as it is written, its name and its type."""
        found = self.columns(tables, kind)
        on_topic = [(alias, column) for alias, column in found if column == self.topic]
        alias, column = self.rng.choice(on_topic if on_topic and self.chance(0.6) else found)
        return "%s.%s" % (alias, column), column, POINTS[column]

    def literal(self, column, null=0.0):
        if self.chance(null):
            return "NULL"
        kind = POINTS[column]
        if kind == INTEGER:
            return str(self.rng.choice(EXTREMES[:7] if column == "n" else range(30) if column == "id" else INTEGERS + [100]))
        if kind == FLOAT:
            far = ["1e300", "5e-324", "0.1", "-1e300"] if column == "w" else ["1.5", "2.0", "-1.0", "3.0"]
            named = ["CAST('NaN' AS DOUBLE PRECISION)", "CAST('Infinity' AS DOUBLE PRECISION)", "CAST('-Infinity' AS DOUBLE PRECISION)", "CAST('-0' AS DOUBLE PRECISION)"]
            return self.rng.choice(far + ["0.0", "0", "1", "-0.0"] + (named if self.chance(0.5) else []))
        if kind == BOOLEAN:
            return self.one("true", "false")
        if kind == TIME:
            return "timestamptz '2026-01-01T%02d:00:00Z'" % self.rng.randrange(12)
        if column in TAGS:
            return "'%s'" % self.rng.choice(HOSTS + ["q"])
        return "'%s'" % self.rng.choice(TEXTS).replace("'", "''")

    # Expressions.

    def expr(self, tables, kind, depth=1):
        column, name, _ = self.column(tables, kind)
        if depth <= 0 or self.chance(0.35):
            return column
        deeper = lambda: self.expr(tables, kind, depth - 1)
        choices = [
            lambda: "coalesce(%s, %s)" % (deeper(), self.literal(name, 0.1)),
            lambda: "coalesce(%s, %s)" % (deeper(), deeper()),
            lambda: "nullif(%s, %s)" % (deeper(), self.literal(name)),
            lambda: "nullif(%s, %s)" % (deeper(), deeper()),
            lambda: "CASE WHEN %s THEN %s%s END" % (self.condition(tables, depth - 1), deeper(), self.one("", " ELSE %s" % self.literal(name))),
            lambda: "CASE %s WHEN %s THEN %s WHEN %s THEN %s ELSE %s END" % (column, self.literal(name), deeper(), self.literal(name, 0.2), deeper(), self.literal(name)),
        ]
        if kind in (INTEGER, FLOAT, TEXT, TIME):
            choices.append(lambda: "%s(%s, %s)" % (self.one("greatest", "least"), deeper(), self.one(deeper, lambda: self.literal(name))()))
        if kind == INTEGER:
            small = lambda: "%s.i" % self.rng.choice(tables)[0]
            choices.append(lambda: "(%s %s %s)" % (small(), self.one("+", "-", "*"), small()))
            choices.append(lambda: "(%s %s nullif(%s, 0))" % (small(), self.one("/i", "%"), small()))
            choices.append(lambda: "abs(%s)" % small())
            choices.append(lambda: "(- %s)" % small())
            choices.append(lambda: "length(%s)" % self.expr(tables, TEXT, 0))
        if kind == FLOAT:
            point = lambda: "%s.v" % self.rng.choice(tables)[0]
            choices.append(lambda: "(%s %s %s)" % (point(), self.one("+", "-", "*"), point()))
            choices.append(lambda: "(- %s)" % point())
            choices.append(lambda: "abs(%s)" % point())
            choices.append(lambda: "%s(%s)" % (self.one("floor", "ceil"), point()))
            choices.append(lambda: "CAST(%s AS DOUBLE PRECISION)" % self.expr(tables, INTEGER, 0))
        if kind == TEXT:
            choices.append(lambda: "(%s || %s)" % (deeper(), deeper()))
            choices.append(lambda: "CAST(%s AS TEXT)" % self.expr(tables, INTEGER, 0))
        if kind == BOOLEAN:
            return "(%s)" % self.condition(tables, depth)
        return self.rng.choice(choices)()

    def compared(self):
        return self.one("=", "<>", "<", "<=", ">", ">=")

    def values(self, column, least=1, most=6):
        count = self.rng.randrange(least, most)
        return ", ".join(self.literal(column, 0.12) for _ in range(count))

    def atom(self, tables, depth):
        kind = self.one(INTEGER, INTEGER, FLOAT, FLOAT, TEXT, BOOLEAN, None)
        column, name, kind = self.column(tables, kind)
        left = self.expr(tables, kind, depth - 1) if self.chance(0.2) and kind != TIME else column
        negated = self.one("", "NOT ")
        choice = self.rng.randrange(16)
        if choice < 4:
            return "%s %sIN (%s)" % (left, negated, self.values(name))
        if choice < 6:
            return "%s %s %s" % (left, self.compared(), self.literal(name, 0.05))
        if choice == 6:
            return "%s %s %s" % (left, self.compared(), self.column(tables, kind)[0])
        if choice == 7:
            return "%s IS %sNULL" % (left, negated)
        if choice in (8, 9):
            return "%s IS %sDISTINCT FROM %s" % (left, negated, self.literal(name, 0.2) if self.chance(0.5) else self.column(tables, kind)[0])
        if choice == 10:
            return "%s %sBETWEEN %s AND %s" % (left, negated, self.literal(name, 0.1), self.literal(name, 0.1))
        if choice == 11 and kind == TEXT:
            return "%s %sLIKE %s" % (left, negated, self.one("'a%'", "'%'", "''", "'_'", "'%b'", "'x'"))
        if choice == 11 and kind in (INTEGER, FLOAT):
            other = self.column(tables, self.one(INTEGER, FLOAT))[0]
            return "%s %s %s" % (left, self.compared(), other)
        if choice == 12 and kind == BOOLEAN:
            return self.one("%s", "%s IS TRUE", "%s IS NOT TRUE", "%s IS FALSE", "%s IS NOT FALSE", "%s IS UNKNOWN", "%s IS NOT UNKNOWN") % column
        if choice == 13:
            return "%s %sIN (%s)" % (left, negated, ", ".join([self.column(tables, kind)[0], self.values(name, 1, 3)]))
        if choice == 14 and kind in (INTEGER, TEXT):
            pair, second, _ = self.column(tables, INTEGER)
            rows = ", ".join("(%s, %s)" % (self.literal(name, 0.1), self.literal(second, 0.1)) for _ in range(2))
            return "(%s = %s AND %s %sIN (%s))" % (column, self.literal(name), pair, negated, self.values(second)) if self.chance(0.7) else "(%s, %s) %sIN (%s)" % (column, pair, negated, rows)
        return "%s %s %s" % (left, self.one("=", "<>"), self.literal(name, 0.15))

    def subquery(self, tables, depth):
        """A condition with a subquery over another table, correlated or not."""
        table = self.one("a", "b", "r")
        column, name, kind = self.column(tables, self.one(INTEGER, INTEGER, FLOAT, TEXT))
        inner = [("q", table)]
        candidates = [c for c in TABLES[table] if POINTS[c] == kind and c != "time"]
        picked = "q.%s" % (name if name in candidates and self.chance(0.7) else self.rng.choice(candidates))
        where = self.one("", " WHERE %s" % self.condition(inner, 0), " WHERE %s" % self.condition(inner, depth - 1))
        negated = self.one("", "NOT ")
        choice = self.rng.randrange(7)
        if choice < 3:
            return "%s %sIN (SELECT %s FROM %s q%s)" % (column, negated, picked, table, where)
        if choice == 3:
            return "%sEXISTS (SELECT 1 FROM %s q WHERE %s = %s%s)" % (negated, table, picked, column, where.replace(" WHERE", " AND"))
        if choice == 4:
            return "%sEXISTS (SELECT 1 FROM %s q%s)" % (negated, table, where)
        if choice == 5:
            return "%s %s (SELECT %s FROM %s q%s)" % (column, self.one("= ANY", "<> ALL", "> ALL", "< ANY", ">= ANY", "<= ALL"), picked, table, where)
        return "%s %s (SELECT %s(%s) FROM %s q%s)" % (column, self.compared(), self.one("max", "min"), picked, table, where)

    def condition(self, tables, depth=2, subqueries=False):
        if depth > 0 and self.chance(0.75):
            left, right = self.condition(tables, depth - 1, subqueries), self.condition(tables, depth - 1, subqueries)
            choice = self.rng.randrange(14)
            if choice < 4:
                return "(%s AND %s)" % (left, right)
            if choice < 8:
                return "(%s OR %s)" % (left, right)
            if choice < 11:
                return "NOT (%s)" % left
            if choice == 11:
                return "(%s) IS %s" % (left, self.one("TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN", "NULL", "NOT NULL"))
            if choice == 12:
                return "(%s) %s (%s)" % (left, self.one("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"), right)
            return self.one("coalesce(%s, true)", "coalesce(%s, false)", "CASE WHEN %s THEN false ELSE true END", "CASE WHEN %s THEN true END") % left
        if subqueries and self.chance(0.3):
            return self.subquery(tables, depth)
        return self.atom(tables, depth)

    def where(self, tables, share=0.8):
        return " WHERE %s" % self.condition(tables, self.rng.randrange(1, 4), self.chance(0.4)) if self.chance(share) else ""

    # Sources.

    def single(self):
        table = self.one("a", "a", "b", "r")
        return "%s x" % table, [("x", table)]

    def equal(self, left, right):
        shared = [c for c in TABLES[left[1]] if c in TABLES[right[1]] and c not in ("id", "w")]
        columns = self.rng.sample(shared, self.rng.randrange(1, 3))
        equals = ["%s.%s %s %s.%s" % (left[0], c, "IS NOT DISTINCT FROM" if self.chance(0.1) else "=", right[0], c) for c in columns]
        return " AND ".join(equals)

    def joined(self):
        tables = [("x", self.one("a", "b", "r")), ("y", self.one("a", "b", "r"))]
        kind = self.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN")
        if kind == "CROSS JOIN":
            return "%s x CROSS JOIN %s y" % (tables[0][1], tables[1][1]), tables
        on = self.equal(*tables)
        if self.chance(0.4) and kind != "FULL JOIN":
            on += " AND %s" % self.condition(self.one(tables, tables[:1], tables[1:]), 1, self.chance(0.3))
        text = "%s x %s %s y ON %s" % (tables[0][1], kind, tables[1][1], on)
        if self.chance(0.2):
            third = ("z", self.one("a", "b", "r"))
            on = self.equal(self.rng.choice(tables), third)
            text += " %s %s z ON %s" % (self.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), third[1], on)
            tables.append(third)
        return text, tables

    def source(self):
        return self.joined() if self.chance(0.35) else self.single()

    # Queries.

    def filtered(self):
        source, tables = self.single()
        return Made("SELECT x.id AS c0 FROM %s%s" % (source, self.where(tables, 1.0)))

    def valued(self):
        source, tables = self.single()
        items = ["x.id", "(%s)" % self.condition(tables, 2, self.chance(0.4)), self.expr(tables, self.one(INTEGER, FLOAT, TEXT), 2)]
        return Made("SELECT %s FROM %s%s" % (named(items), source, self.where(tables, 0.4)))

    def join(self):
        source, tables = self.joined()
        items = ["%s.id" % alias for alias, _ in tables]
        column, name, _ = self.column(tables)
        if name != "time":
            items.append(column)
        if self.chance(0.3):
            items.append("(%s)" % self.condition(tables, 1))
        return Made("SELECT %s FROM %s%s" % (named(items), source, self.where(tables, 0.7)))

    def aggregate(self, tables):
        condition = " FILTER (WHERE %s)" % self.condition(tables, 1) if self.chance(0.3) else ""
        column = lambda kind: self.column(tables, kind)[0]
        alias = self.rng.choice(tables)[0]
        choices = [
            lambda: "count(*)",
            lambda: "count(%s)" % column(None),
            lambda: "count(DISTINCT %s)" % column(self.one(INTEGER, FLOAT, FLOAT, TEXT, BOOLEAN)),
            lambda: "%s(%s)" % (self.one("min", "max"), column(self.one(INTEGER, FLOAT, FLOAT, TEXT))),
            lambda: "sum(%s.%s)" % (alias, self.one("i", "n", "n", "v", "id")),
            lambda: "sum(DISTINCT %s.%s)" % (alias, self.one("i", "n", "v")),
            lambda: "avg(%s.%s)" % (alias, self.one("i", "v")),
            lambda: "avg(DISTINCT %s.%s)" % (alias, self.one("i", "v")),
            lambda: "%s(%s.b)" % (self.one("bool_and", "bool_or"), alias),
            lambda: "%s(%s)" % (self.one("bool_and", "bool_or"), self.condition(tables, 1)),
            lambda: "%s(%s)" % (self.one("min", "max"), self.expr(tables, self.one(INTEGER, FLOAT, TEXT), 1)),
            lambda: "count(%s)" % self.expr(tables, self.one(INTEGER, FLOAT, TEXT), 1),
            lambda: "sum(%s)" % self.expr(tables, INTEGER, 1).replace(".n", ".i"),
            lambda: "%s(%s.i)" % (self.one("stddev_samp", "stddev_pop", "var_samp", "var_pop"), alias),
        ]
        return self.rng.choice(choices)() + condition

    def grouped(self):
        source, tables = self.source()
        count = self.rng.randrange(3)
        keys = [self.column(tables, self.one(INTEGER, FLOAT, FLOAT, TEXT, BOOLEAN))[0] if self.chance(0.7) else self.expr(tables, self.one(INTEGER, FLOAT, TEXT), 1) for _ in range(count)]
        keys = list(dict.fromkeys(keys))
        items = keys + [self.aggregate(tables) for _ in range(self.rng.randrange(1, 4))]
        text = "SELECT %s FROM %s%s" % (named(items), source, self.where(tables, 0.5))
        plain = all("(" not in key and " " not in key for key in keys)
        if keys:
            by = ", ".join(keys if plain else [str(at + 1) for at in range(len(keys))])
            if plain and len(keys) == 2 and self.chance(0.3):
                by = self.one("ROLLUP (%s)", "CUBE (%s)", "GROUPING SETS ((%s), ())") % by
            text += " GROUP BY %s" % by
            if self.chance(0.3):
                text += " HAVING %s" % self.one("count(*) > 1", "count(*) NOT IN (1, 3)", "min(%s) IS NOT NULL" % self.column(tables, INTEGER)[0], "max(%s) IN (0, 1, 2, NULL)" % self.column(tables, INTEGER)[0], "NOT (count(*) IN (1, 2) AND count(*) IN (2, 3))")
        return Made(text)

    def windowed(self):
        source, tables = self.single()
        key = self.column(tables, self.one(INTEGER, FLOAT, FLOAT, TEXT, BOOLEAN))[0]
        part = self.one("", "PARTITION BY %s " % key, "PARTITION BY %s " % self.expr(tables, self.one(INTEGER, FLOAT, TEXT), 1))
        by = self.column(tables, self.one(INTEGER, FLOAT, FLOAT, TEXT))[0]
        order = "%s%s NULLS %s" % (by, self.one("", " DESC"), self.one("FIRST", "LAST"))
        number, point = "x.i", "x.v"
        condition = self.condition(tables, 1)
        # Rows that tie have the same rank, sum or count; all else needs an order in which none tie.
        tied = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()", "sum(%s)" % number, "count(*)", "count(%s)" % point, "min(%s)" % point, "max(%s)" % by, "count(*) FILTER (WHERE %s)" % condition, "sum(x.n)", "avg(%s)" % number]
        untied = ["row_number()", "lag(%s)" % point, "lead(%s, 2)" % number, "lag(%s, 1, 0)" % number, "first_value(%s)" % point, "last_value(%s)" % number, "nth_value(%s, 2)" % point, "ntile(3)"]
        items = ["x.id"]
        for _ in range(self.rng.randrange(1, 3)):
            choice = self.rng.randrange(5)
            if choice < 2:
                items.append("%s OVER (%sORDER BY %s)" % (self.rng.choice(tied), part, order))
            elif choice == 2:
                items.append("%s OVER (%sORDER BY %s, x.id)" % (self.rng.choice(untied), part, order))
            elif choice == 3:
                frame = self.one("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")
                function = self.one("sum(%s)" % number, "count(%s)" % point, "min(%s)" % number, "max(x.n)", "count(*)", "min(%s)" % point, "first_value(x.id)", "last_value(x.id)")
                items.append("%s OVER (%sORDER BY %s, x.id %s)" % (function, part, order, frame))
            else:
                items.append("%s OVER (%s)" % (self.one("count(*)", "sum(%s)" % number, "max(%s)" % point, "count(%s)" % point, "min(x.n)", "sum(x.n)"), part.strip()))
        return Made("SELECT %s FROM %s%s" % (named(items), source, self.where(tables, 0.4)))

    def combined(self):
        kinds = [self.one(INTEGER, TEXT, FLOAT, FLOAT, BOOLEAN) for _ in range(self.rng.randrange(1, 3))]
        sides = []
        for _ in range(2):
            source, tables = self.single()
            sides.append("SELECT %s FROM %s%s" % (named([self.expr(tables, kind, 0) for kind in kinds]), source, self.where(tables, 0.5)))
        return Made((" %s " % self.one("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")).join(sides))

    def distinct(self):
        source, tables = self.source()
        kinds = [self.one(INTEGER, FLOAT, FLOAT, TEXT, BOOLEAN) for _ in range(self.rng.randrange(1, 3))]
        if self.chance(0.3):
            key = self.column(tables[:1], self.one(FLOAT, INTEGER, TEXT))[0]
            inner = "SELECT DISTINCT ON (%s) %s AS c0, x.id AS c1 FROM %s x%s ORDER BY %s, x.id" % (key, key, tables[0][1], self.where(tables[:1], 0.3), key)
            return Made("SELECT q.c0, q.c1 FROM (%s) q" % inner)
        return Made("SELECT DISTINCT %s FROM %s%s" % (named([self.expr(tables, kind, 1) for kind in kinds]), source, self.where(tables, 0.5)))

    def ordered(self):
        source, tables = self.single()
        items = [self.expr(tables, self.one(INTEGER, FLOAT, FLOAT, TEXT), self.rng.randrange(2)) for _ in range(self.rng.randrange(1, 3))] + ["x.id"]
        order = ", ".join("%d%s NULLS %s" % (at + 1, self.one("", " DESC"), self.one("FIRST", "LAST")) for at in range(len(items)))
        limit = " LIMIT %d" % self.rng.randrange(0, 12) if self.chance(0.6) else ""
        offset = " OFFSET %d" % self.rng.randrange(0, 5) if limit and self.chance(0.4) else ""
        return Made("SELECT %s FROM %s%s ORDER BY %s%s%s" % (named(items), source, self.where(tables, 0.5), order, limit, offset), ordered=True)

    def nested(self):
        source, tables = self.source()
        items = ["x.id", self.expr(tables, INTEGER, 1), self.expr(tables, FLOAT, 1), self.expr(tables, TEXT, 1), "(%s)" % self.condition(tables, 1)]
        inner = "SELECT %s FROM %s%s" % (named(items), source, self.where(tables, 0.5))
        outer = self.one(
            "SELECT q.c0 AS d0, q.c2 AS d1 FROM (%s) q WHERE q.c4",
            "SELECT q.c0 AS d0 FROM (%s) q WHERE NOT q.c4 OR q.c1 NOT IN (1, 2)",
            "SELECT q.c4 AS d0, count(*) AS d1, count(DISTINCT q.c2) AS d2 FROM (%s) q GROUP BY q.c4",
            "SELECT q.c2 AS d0, count(*) AS d1 FROM (%s) q GROUP BY q.c2",
            "WITH q AS (%s) SELECT p.c0 AS d0, q.c0 AS d1 FROM q JOIN q p ON p.c1 = q.c1 WHERE p.c0 < q.c0",
            "WITH q AS (%s) SELECT q.c0 AS d0, p.c3 AS d1 FROM q LEFT JOIN (SELECT DISTINCT q.c3 FROM q) p ON p.c3 = q.c3 WHERE q.c2 IS DISTINCT FROM 0",
        )
        return Made(outer % inner)

    def changed(self):
        """A delete or an update of a table of its own, and what is left of it."""
        table = self.one("a", "b", "r")
        condition = self.condition([("t", table)], self.rng.randrange(1, 4), self.chance(0.3)).replace("t.", "")
        copy = "t"
        if self.chance(0.6):
            change = "DELETE FROM %s WHERE %s" % (copy, condition)
        else:
            column = self.one("v", "i", "n", "s", "b")
            value = self.literal(column, 0.2) if self.chance(0.5) else {"v": "v + 1", "i": "coalesce(i, 7) * 2", "n": "nullif(n, 0)", "s": "s || 'q'", "b": "NOT b"}[column]
            change = "UPDATE %s SET %s = %s WHERE %s" % (copy, column, value, condition)
        return Made("SELECT t.id AS c0, t.i AS c1, t.n AS c2, t.v AS c3, t.s AS c4, t.b AS c5 FROM t", before=["COPY %s" % table, change])

    def strict(self):
        """Numbers that may not fit: an oracle that refuses one has a client that must not be given another."""
        source, tables = self.single()
        number = lambda: self.one("x.n", "x.n", "x.i", "9223372036854775807", "x.id", "1", "-1", "2")
        item = self.one(
            "(%s %s %s)" % (number(), self.one("+", "-", "*"), number()),
            "(- x.n)", "abs(x.n)", "(x.n /i -1)", "(x.n % -1)", "(x.i /i x.i)", "sum(x.n)", "sum(x.n) OVER ()", "sum(x.n + x.i)",
            "sum(x.n) FILTER (WHERE x.id > 3)", "sum(x.n %s %s)" % (self.one("+", "*"), number()), "avg(x.n)",
            "CAST(%s AS BIGINT)" % self.one("x.v", "x.w", "x.s", "x.v * 1e19"), "CAST(x.s AS DOUBLE PRECISION)", "sum(DISTINCT x.n)",
            "(x.n + x.v)", "CAST(x.n AS INTEGER)",
        )
        where = self.one("", "", " WHERE x.id > 0", " WHERE x.i >= 0", " WHERE x.n > 0")
        if "x.w" in item:
            source = self.one("a x", "b x")
        return Made("SELECT %s AS c0 FROM %s%s" % (item, source, where), strict=True)

    def any(self):
        form = self.one(*[self.filtered] * 4, *[self.valued] * 2, *[self.join] * 3, *[self.grouped] * 3, *[self.windowed] * 2, self.combined, self.distinct, self.ordered, self.nested, self.nested, self.changed, self.strict)
        return form()


def named(items):
    return ", ".join("%s AS c%d" % (item, at) for at, item in enumerate(items))
