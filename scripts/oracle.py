#!/usr/bin/env python3
"""Random tables and queries, with what PostgreSQL, DuckDB and SQLite answer to them.

Prints one JSON object per line: first the statements that make the tables (as Nilometer reads them), then the queries
with the rows that an oracle gave. `crates/query/tests/sql/oracle.rs` asks Nilometer the same and compares; a few files of
such lines are kept in `testdata/oracle`, so that it needs neither database.

Usage: oracle.py (sqlite | postgresql | duckdb) SEED QUERIES [edges]

With `edges` the tables and queries are those of oracle_edges.py, which are about NULL, -0.0, NaN and numbers that do not
fit; DuckDB is asked those only. SQLite is the one that Python brings. PostgreSQL is started here, in a folder of its own, on
a socket in that folder. If PostgreSQL or DuckDB is not installed, one line on standard error says so and the status is 3.
"""

import datetime
import decimal
import glob
import json
import math
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import oracle_edges

INTEGER, FLOAT, BOOLEAN, TEXT, TIME = "integer", "float", "boolean", "text", "time"

# Column names by type, for each table. `e` and `g` have extreme values and are never calculated with.
TABLES = {
    "m": {"time": TIME, "host": TEXT, "dc": TEXT, "a": INTEGER, "e": INTEGER, "f": FLOAT, "g": FLOAT, "b": BOOLEAN, "s": TEXT},
    "n": {"time": TIME, "host": TEXT, "x": INTEGER, "y": FLOAT, "k": BOOLEAN},
    "r": {"id": INTEGER, "name": TEXT, "w": FLOAT, "up": BOOLEAN},
}
TAGS = {"host", "dc"}
EXTREME = {"e", "g"}
NAMES = {
    "nilometer": {INTEGER: "BIGINT", FLOAT: "DOUBLE PRECISION", BOOLEAN: "BOOLEAN", TEXT: "TEXT", TIME: "TIMESTAMPTZ"},
    "postgresql": {INTEGER: "bigint", FLOAT: "double precision", BOOLEAN: "boolean", TEXT: "text", TIME: "timestamptz"},
    "sqlite": {INTEGER: "INTEGER", FLOAT: "REAL", BOOLEAN: "INTEGER", TEXT: "TEXT", TIME: "TEXT"},
    "duckdb": {INTEGER: "BIGINT", FLOAT: "DOUBLE", BOOLEAN: "BOOLEAN", TEXT: "VARCHAR", TIME: "TIMESTAMP"},
}
START = 1767225600  # 2026-01-01 00:00:00 UTC


def time_text(seconds):
    days, rest = divmod(seconds - START, 86400)
    months = [31, 28, 31]
    month = 0
    while days >= months[month]:
        days -= months[month]
        month += 1
    return "2026-%02d-%02d %02d:%02d:%02d" % (month + 1, days + 1, rest // 3600, rest // 60 % 60, rest % 60)


class Data:
    """Rows of all tables."""

    def __init__(self, rng, special):
        self.rng = rng
        # NaN and infinities: SQLite has no NaN.
        self.special = special
        self.rows = {"m": self.some(70, self.m), "n": self.some(40, self.n), "r": [self.r(at) for at in range(8)]}
        for name in ("m", "n"):
            doubled = [list(rng.choice(self.rows[name])) for _ in range(4)]
            self.rows[name] += doubled

    def some(self, count, make):
        return [make() for _ in range(count)]

    def null(self, value, share=0.2):
        return None if self.rng.random() < share else value

    def time(self):
        # Few hours, so that buckets have several rows and times come twice.
        return START + self.rng.randrange(0, 6 * 86400, 1200)

    def host(self):
        return self.null(self.rng.choice(["h1", "h2", "h3", "H2"]), 0.1)

    def text(self):
        return self.null(self.rng.choice(["", "a", "abc", "Abc", "a%c", "x_y", "zz top", "abcabc", " pad ", "9"]))

    def extreme(self):
        return self.null(self.rng.choice([-(2**63), 2**63 - 1, 0, -1, 1, 2**53 + 1]))

    def float(self):
        # No infinity where there is arithmetic: inf - inf is a NaN of other bits, which Nilometer keeps apart in groups.
        special = [float("nan")] if self.special and self.rng.random() < 0.1 else [0.0]
        return self.null(self.rng.choice([self.rng.randrange(-400, 400) / 8, float(self.rng.randrange(-5, 5)), self.rng.choice(special)]))

    def extreme_float(self):
        special = [float("nan"), float("inf"), float("-inf")] if self.special else []
        return self.null(self.rng.choice([1e300, -1e300, 5e-324, 0.0, 1.5, 0.1] + special))

    def m(self):
        return [self.time(), self.host(), self.null(self.rng.choice(["eu", "us"])), self.null(self.rng.randrange(-20, 20)),
                self.extreme(), self.float(), self.extreme_float(), self.null(self.rng.random() < 0.5), self.text()]

    def n(self):
        return [self.time(), self.host(), self.null(self.rng.randrange(-5, 6)), self.float(), self.null(self.rng.random() < 0.5)]

    def r(self, at):
        return [at - 3, ["h1", "h2", "h3", None, "h9", "", "us", "eu"][at], self.float(), self.null(self.rng.random() < 0.5)]


def literal(value, kind, dialect):
    if value is None:
        return "NULL"
    if kind == TIME:
        return "'%s'" % time_text(value) if dialect == "sqlite" else "'%sZ'" % time_text(value)
    if kind == BOOLEAN:
        return str(int(value)) if dialect == "sqlite" else str(value).lower()
    if kind == FLOAT:
        if math.isnan(value) or math.isinf(value):
            if dialect == "sqlite":
                return "9e999" if value > 0 else "-9e999"
            return "'%s'" % ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
        # The sign of a zero is kept by no literal that PostgreSQL reads as a decimal number.
        return "CAST('-0' AS DOUBLE PRECISION)" if value == 0 and math.copysign(1, value) < 0 else repr(value)
    if kind == TEXT:
        return "'%s'" % value.replace("'", "''")
    return str(value)


def create(name, columns, tags, dialect):
    types = []
    for column, kind in columns.items():
        tag = " TAG" if dialect == "nilometer" and column in tags and "time" in columns else ""
        key = " PRIMARY KEY" if column == "id" and "time" not in columns else ""
        types.append("%s %s%s%s" % (column, NAMES[dialect][kind], tag, key))
    settings = " WITH (duplicates = 'keep')" if dialect == "nilometer" and "time" in columns else ""
    return "CREATE TABLE %s (%s)%s" % (name, ", ".join(types), settings)


def insert(name, columns, rows, dialect):
    written = []
    for row in rows:
        values = [literal(value, kind, dialect) for value, kind in zip(row, columns.values())]
        written.append("(%s)" % ", ".join(values))
    return "INSERT INTO %s (%s) VALUES %s" % (name, ", ".join(columns), ", ".join(written))


def setup(data, dialect, tables=TABLES, tags=frozenset(TAGS)):
    statements = []
    for name, columns in tables.items():
        statements.append(create(name, columns, tags, dialect))
        statements.append(insert(name, columns, data.rows[name], dialect))
    return statements


def in_dialect(text, dialect):
    """The few words that the dialects write differently."""
    if dialect == "duckdb":
        return re.sub(r"timestamptz '([^']*)Z'", r"timestamp '\1'", text).replace(" /i ", " // ")
    return text.replace(" /i ", " / ")


def before(made, data, dialect):
    """What is done before a query of the edges: a table of its own, `t`, and a change of it."""
    statements = []
    for statement in made.before:
        word, _, table = statement.partition(" ")
        if word != "COPY":
            statements.append(in_dialect(statement, dialect))
            continue
        columns = oracle_edges.TABLES[table]
        if dialect == "nilometer":
            statements.append("DROP TABLE IF EXISTS t")
        statements.append(create("t", columns, oracle_edges.TAGS, dialect))
        statements.append(insert("t", columns, data.rows[table], dialect))
    return statements


class Query:
    """One random query, written the same for Nilometer and the oracle."""

    def __init__(self, rng, sqlite):
        self.rng = rng
        self.sqlite = sqlite

    def one(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def columns(self, tables, kind, calculated=True):
        return ["%s.%s" % (alias, column) for alias, table in tables for column, of in TABLES[table].items()
                if of == kind and not (calculated and column in EXTREME)]

    # Expressions. `tables` are the pairs (alias, table) that may be named.

    def expr(self, tables, kind, depth=2):
        return {INTEGER: self.integer, FLOAT: self.float, BOOLEAN: self.condition, TEXT: self.text, TIME: self.time}[kind](tables, depth)

    def leaf(self, tables, kind, literals):
        columns = self.columns(tables, kind)
        if columns and self.chance(0.75):
            return self.rng.choice(columns)
        return self.rng.choice(literals)

    def integer(self, tables, depth):
        if depth == 0 or self.chance(0.3):
            return self.leaf(tables, INTEGER, ["0", "1", "-3", "7"])
        deeper = lambda: self.integer(tables, depth - 1)
        choice = self.rng.randrange(9)
        if choice == 0:
            return "(%s %s %s)" % (deeper(), self.one("+", "-", "*"), deeper())
        if choice == 1:
            return "abs(%s)" % deeper()
        if choice == 2:
            return "coalesce(%s, %s)" % (deeper(), deeper())
        if choice == 3:
            return "nullif(%s, %s)" % (deeper(), deeper())
        if choice == 4:
            return "(%s %s nullif(%s, 0))" % (deeper(), self.one("/", "%"), deeper())
        if choice == 5:
            return "length(%s)" % self.text(tables, depth - 1)
        if choice == 6:
            return self.case(tables, INTEGER, depth)
        if choice == 7 and not self.sqlite:
            return "CAST(extract(%s FROM %s) AS BIGINT)" % (self.one("hour", "minute", "day", "dow", "doy", "month", "year", "week", "isodow", "quarter"), self.time(tables, 0))
        if choice == 8 and not self.sqlite:
            return "%s(%s, %s)" % (self.one("greatest", "least"), deeper(), deeper())
        return "(- %s)" % deeper()

    def float(self, tables, depth):
        if depth == 0 or self.chance(0.3):
            return self.leaf(tables, FLOAT, ["0.5", "-2.25", "3.0", "0.0"])
        deeper = lambda: self.float(tables, depth - 1)
        choice = self.rng.randrange(8)
        if choice == 0:
            return "(%s %s %s)" % (deeper(), self.one("+", "-", "*"), deeper())
        if choice == 1:
            return "abs(%s)" % deeper()
        if choice == 2:
            return "coalesce(%s, %s)" % (deeper(), deeper())
        if choice == 3:
            return "CAST(%s AS DOUBLE PRECISION)" % self.integer(tables, depth - 1)
        if choice == 4:
            return self.case(tables, FLOAT, depth)
        if choice == 5 and not self.sqlite:
            return "%s(%s)" % (self.one("floor", "ceil", "round", "trunc", "sign"), deeper())
        if choice == 6 and not self.sqlite:
            return "%s(%s, %s)" % (self.one("greatest", "least"), deeper(), deeper())
        return "(%s / 4.0)" % deeper()

    def text(self, tables, depth):
        if depth == 0 or self.chance(0.4):
            return self.leaf(tables, TEXT, ["'a'", "'abc'", "''", "'H2'"])
        deeper = lambda: self.text(tables, depth - 1)
        choice = self.rng.randrange(10)
        if choice == 0:
            return "(%s || %s)" % (deeper(), deeper())
        if choice == 1:
            return "%s(%s)" % (self.one("upper", "lower"), deeper())
        if choice == 2:
            return "coalesce(%s, %s)" % (deeper(), deeper())
        if choice == 3:
            return "substr(%s, %d, %d)" % (deeper(), self.rng.randrange(1, 4), self.rng.randrange(0, 4))
        if choice == 4:
            return "replace(%s, %s, %s)" % (deeper(), self.one("'a'", "'bc'", "' '"), self.one("''", "'zz'"))
        if choice == 5:
            return "%s(%s)" % (self.one("trim", "ltrim", "rtrim"), deeper())
        if choice == 6:
            return "CAST(%s AS TEXT)" % self.integer(tables, depth - 1)
        if choice == 7:
            return self.case(tables, TEXT, depth)
        if choice == 8 and not self.sqlite:
            return self.one("left(%s, 2)", "right(%s, 2)", "reverse(%s)", "repeat(%s, 2)", "lpad(%s, 4, 'x')", "initcap(%s)", "split_part(%s, 'b', 1)", "concat(%s, NULL, 'q')", "translate(%s, 'ab', 'x')") % deeper()
        return "nullif(%s, %s)" % (deeper(), deeper())

    def time(self, tables, depth):
        columns = self.columns(tables, TIME)
        leaf = self.rng.choice(columns) if columns and self.chance(0.9) else ("'2026-01-03 00:00:00'" if self.sqlite else "timestamptz '2026-01-03T00:00:00Z'")
        if self.sqlite or depth == 0 or self.chance(0.4):
            return leaf
        if self.chance(0.5):
            return "date_trunc('%s', %s)" % (self.one("hour", "day", "week", "month", "minute"), leaf)
        return "(%s %s interval '%s')" % (leaf, self.one("+", "-"), self.one("1 hour", "1 day", "90 minutes", "1 month"))

    def case(self, tables, kind, depth):
        inner = lambda: self.expr(tables, kind, depth - 1)
        if self.chance(0.3):
            of = self.one(INTEGER, TEXT)
            return "CASE %s WHEN %s THEN %s ELSE %s END" % (self.expr(tables, of, depth - 1), self.expr(tables, of, depth - 1), inner(), inner())
        otherwise = " ELSE %s" % inner() if self.chance(0.6) else ""
        return "CASE WHEN %s THEN %s%s END" % (self.condition(tables, depth - 1), inner(), otherwise)

    def condition(self, tables, depth=2):
        if depth > 0 and self.chance(0.4):
            left, right = self.condition(tables, depth - 1), self.condition(tables, depth - 1)
            return self.one("(%s AND %s)", "(%s OR %s)") % (left, right) if self.chance(0.75) else "(NOT %s)" % left
        kind = self.one(INTEGER, FLOAT, TEXT, TIME, INTEGER, TEXT)
        if not self.columns(tables, kind):
            kind = TEXT
        operand = lambda: self.expr(tables, kind, max(0, depth - 1))
        choice = self.rng.randrange(9)
        extreme = [c for c in self.columns(tables, kind, False) if c.split(".")[1] in EXTREME]
        if extreme and self.chance(0.15):
            value = self.one("9223372036854775807", "-9223372036854775808", "0", "9007199254740993") if kind == INTEGER else self.one("1e300", "0.0", "0.1")
            return "%s %s %s" % (self.rng.choice(extreme), self.one("=", "<>", "<", "<=", ">", ">="), value)
        if choice == 0:
            return "%s IS %sNULL" % (operand(), self.one("", "NOT "))
        if choice == 1:
            return "%s %sBETWEEN %s AND %s" % (operand(), self.one("", "NOT "), operand(), operand())
        if choice == 2:
            values = ", ".join(operand() for _ in range(self.rng.randrange(1, 4)))
            return "%s %sIN (%s%s)" % (operand(), self.one("", "NOT "), values, self.one("", "", ", NULL"))
        if choice == 3:
            pattern = self.one("'a%'", "'%c'", "'_b_'", "'%'", "''", "'h_'", "'%b%a%'")
            return "%s %sLIKE %s" % (self.text(tables, max(0, depth - 1)), self.one("", "NOT "), pattern)
        if choice == 4 and not self.sqlite:
            return self.text(tables, 0) + self.one(" ILIKE 'A%'", " NOT ILIKE '%B_'", " ~ '^[ah]'", " ~* 'B'", " !~ 'c$'")
        if choice == 5 and self.columns(tables, BOOLEAN):
            column = self.rng.choice(self.columns(tables, BOOLEAN))
            return column if self.sqlite else column + self.one("", " IS TRUE", " IS NOT TRUE", " IS FALSE", " = true")
        if choice == 6:
            if not self.sqlite:
                return "%s IS %sDISTINCT FROM %s" % (operand(), self.one("", "NOT "), operand())
        return "%s %s %s" % (operand(), self.one("=", "<>", "<", "<=", ">", ">="), operand())

    def aggregate(self, tables):
        """An aggregate and whether it is of integers, floats, ..."""
        choice = self.rng.randrange(11)
        number = self.one(INTEGER, FLOAT)
        every = [c for kind in (INTEGER, FLOAT, TEXT, TIME) for c in self.columns(tables, kind, False)]
        condition = " FILTER (WHERE %s)" % self.condition(tables, 1) if self.chance(0.25) else ""
        if choice == 0:
            return "count(*)" + condition
        if choice == 1:
            return "count(%s)%s" % (self.rng.choice(every), condition)
        if choice == 2:
            return "count(DISTINCT %s)%s" % (self.rng.choice(every), condition)
        if choice in (3, 4):
            return "%s(%s)%s" % (self.one("min", "max"), self.rng.choice(every), condition)
        if choice == 5:
            return "avg(%s)%s" % (self.expr(tables, number, 1), condition)
        if choice == 6 and not self.sqlite:
            return "%s(%s)%s" % (self.one("stddev_samp", "stddev_pop", "var_samp", "var_pop", "stddev"), self.integer(tables, 0), condition)
        if choice == 7 and not self.sqlite:
            return "%s(%s)%s" % (self.one("bool_and", "bool_or"), self.condition(tables, 0), condition)
        if choice == 8 and not self.sqlite:
            column = self.rng.choice(self.columns(tables, TEXT))
            return "string_agg(%s, ',' ORDER BY %s)" % (column, column)
        if choice == 9 and not self.sqlite:
            return "percentile_cont(0.5) WITHIN GROUP (ORDER BY %s)" % self.rng.choice(self.columns(tables, INTEGER))
        return "sum(%s)%s" % (self.expr(tables, number, 1), condition)

    # Queries.

    def source(self):
        """What stands in FROM, and the tables that it names."""
        if self.chance(0.6):
            table = self.one("m", "m", "n", "r")
            return "%s t" % table, [("t", table)]
        tables = [("t", self.one("m", "n")), ("v", self.one("n", "r"))]
        left, right = ["%s %s" % (table, alias) for alias, table in tables]
        join = self.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "JOIN", "LEFT JOIN")
        if join == "CROSS JOIN":
            return "%s CROSS JOIN r v" % left, [tables[0], ("v", "r")]
        key = "v.name" if tables[1][1] == "r" else "v.host"
        on = "t.host = %s" % key
        if self.chance(0.3) and join not in ("FULL JOIN", "RIGHT JOIN"):
            on += " AND %s" % self.condition(tables, 0)
        return "%s %s %s ON %s" % (left, join, right, on), tables

    def where(self, tables):
        if self.chance(0.3):
            return ""
        condition = self.condition(tables, 2)
        if self.chance(0.2):
            alias, table = tables[0]
            column = "id" if table == "r" else "x" if table == "n" else "a"
            condition = self.one(
                "%s.%s %sIN (SELECT q.x FROM n q WHERE %s)" % (alias, column, self.one("", "NOT "), self.condition([("q", "n")], 1)),
                "%sEXISTS (SELECT 1 FROM n q WHERE q.x = %s.%s AND %s)" % (self.one("", "NOT "), alias, column, self.condition([("q", "n")], 1)),
                "%s.%s > (SELECT %s FROM n q WHERE %s)" % (alias, column, self.one("min(q.x)", "avg(q.x)", "count(*)"), self.condition([("q", "n")], 1)),
            )
        return " WHERE " + condition

    def kinds(self, tables):
        return [kind for kind in (INTEGER, FLOAT, BOOLEAN, TEXT, TIME) if self.columns(tables, kind)]

    def plain(self):
        source, tables = self.source()
        kinds = self.kinds(tables)
        items = [self.expr(tables, self.rng.choice(kinds)) for _ in range(self.rng.randrange(1, 4))]
        if self.chance(0.2):
            items.append(self.rng.choice(self.columns(tables, INTEGER, False) + self.columns(tables, FLOAT, False)))
        distinct = self.one("", "", "DISTINCT ")
        return "SELECT %s%s FROM %s%s" % (distinct, named(items), source, self.where(tables)), False

    def ordered(self):
        source, tables = self.source()
        kinds = self.kinds(tables)
        items = [self.expr(tables, self.rng.choice(kinds), 1) for _ in range(self.rng.randrange(1, 4))]
        text = "SELECT %s FROM %s%s" % (named(items), source, self.where(tables))
        # Ordered by all that is shown, so rows that tie are the same.
        order = ", ".join("%d%s NULLS %s" % (at + 1, self.one("", " DESC"), self.one("FIRST", "LAST")) for at in range(len(items)))
        limit = " LIMIT %d" % self.rng.randrange(0, 20) if self.chance(0.7) else ""
        offset = " OFFSET %d" % self.rng.randrange(0, 8) if limit and self.chance(0.4) else ""
        return "%s ORDER BY %s%s%s" % (text, order, limit, offset), True

    def grouped(self):
        source, tables = self.source()
        kinds = self.kinds(tables)
        keys = [self.expr(tables, self.rng.choice(kinds), self.rng.randrange(2)) for _ in range(self.rng.randrange(0, 3))]
        keys = list(dict.fromkeys(keys))
        if keys and self.chance(0.15):
            keys[0] = self.rng.choice(self.columns(tables, FLOAT, False) + self.columns(tables, INTEGER, False))
        aggregates = [self.aggregate(tables) for _ in range(self.rng.randrange(1, 4))]
        text = "SELECT %s FROM %s%s" % (named(keys + aggregates), source, self.where(tables))
        if keys:
            by = [str(at + 1) for at in range(len(keys))]
            form = "ROLLUP (%s)" if len(keys) > 1 and not self.sqlite and self.chance(0.2) else "%s"
            if form != "%s":
                by = keys
            text += " GROUP BY " + form % ", ".join(by)
            if self.chance(0.3):
                text += " HAVING " + self.one("count(*) > 1", "min(%s) < 3" % self.rng.choice(self.columns(tables, INTEGER)), "sum(%s) IS NOT NULL" % self.rng.choice(self.columns(tables, FLOAT)))
        return text, False

    def bucketed(self):
        """By tags and hours, as dashboards do; the engine answers these from statistics where it can."""
        keys = ["t.host", "t.dc"] + ([] if self.sqlite else ["date_trunc('%s', t.time)" % self.one("hour", "day")])
        keys = self.rng.sample(keys, self.rng.randrange(1, len(keys) + 1))
        column = lambda: self.one("t.a", "t.f", "t.e", "t.g")
        count = self.rng.randrange(1, 4)
        aggregates = [self.one("count(*)", "count(%s)" % column(), "min(%s)" % column(), "max(%s)" % column(), "sum(t.a)", "avg(t.a)", "sum(t.f)", "avg(t.f)") for _ in range(count)]
        if self.sqlite:
            where = self.one("", " WHERE t.host = 'h2'", " WHERE t.host IN ('h1', 'H2')", " WHERE t.time >= '2026-01-02 00:00:00'")
        else:
            where = self.one("", " WHERE t.host = 'h2'", " WHERE t.host IN ('h1', 'H2') AND t.time < '2026-01-04T12:00:00Z'", " WHERE t.time >= '2026-01-02T00:30:00Z' AND t.time <= '2026-01-05T00:00:00Z'", " WHERE t.host IS NULL", " WHERE t.dc <> 'eu'", " WHERE t.host ~ '^h'", " WHERE t.host NOT IN ('h1')", " WHERE t.host LIKE 'h%' OR t.dc = 'us'")
        text = "SELECT %s FROM m t%s GROUP BY %s" % (named(keys + aggregates), where, ", ".join(str(at + 1) for at in range(len(keys))))
        return text, False

    def windowed(self):
        table = self.one("m", "n")
        tables = [("t", table)]
        number = "t.a" if table == "m" else "t.x"
        measured = "t.f" if table == "m" else "t.y"
        # Rows that tie in all of these are the same in all that is shown.
        order = "t.time, t.host NULLS FIRST, %s NULLS FIRST, %s NULLS LAST" % (number, measured)
        part = self.one("", "PARTITION BY t.host ", "PARTITION BY %s " % self.expr(tables, self.one(INTEGER, TEXT), 1))
        functions = ["rank()", "dense_rank()", "sum(%s)" % number, "count(%s)" % measured, "min(%s)" % number, "max(t.time)"]
        rows = ["row_number()", "lag(%s)" % number, "lead(%s, 2)" % number, "first_value(%s)" % number, "last_value(%s)" % measured, "ntile(3)", "nth_value(%s, 2)" % number]
        items = []
        for _ in range(self.rng.randrange(1, 3)):
            if self.chance(0.6):
                items.append("%s OVER (%sORDER BY %s)" % (self.rng.choice(functions), part, order))
            else:
                frame = self.one("", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING")
                items.append("%s OVER (%sORDER BY %s%s)" % (self.rng.choice(rows), part, order, " " + frame if frame else ""))
        shown = ["t.time", "t.host", number, measured]
        return "SELECT %s FROM %s t%s" % (named(shown + items), table, self.where(tables)), False

    def combined(self):
        kinds = [self.one(INTEGER, TEXT, FLOAT) for _ in range(self.rng.randrange(1, 3))]
        sides = []
        for _ in range(2):
            source, tables = self.source()
            sides.append("SELECT %s FROM %s%s" % (named([self.expr(tables, kind, 1) for kind in kinds]), source, self.where(tables)))
        return (" %s " % self.one("UNION", "UNION ALL", "EXCEPT", "INTERSECT")).join(sides), False

    def nested(self):
        source, tables = self.source()
        items = [self.integer(tables, 1), self.text(tables, 1), self.float(tables, 1)]
        inner = "SELECT %s FROM %s%s" % (named(items), source, self.where(tables))
        aggregate = self.one("count(*)", "sum(q.c0)", "max(q.c1)", "avg(q.c2)", "min(q.c2)")
        form = self.one("WITH q AS (%s) SELECT q.c1 AS d0, %s AS d1 FROM q GROUP BY q.c1", "SELECT q.c1 AS d0, %s AS d1 FROM (%s) q WHERE q.c0 > 0 GROUP BY q.c1")
        if form.startswith("WITH"):
            return form % (inner, aggregate), False
        return form % (aggregate, inner), False

    def any(self):
        form = self.one(self.plain, self.ordered, self.grouped, self.grouped, self.bucketed, self.windowed, self.combined, self.nested)
        return form()


def named(items):
    return ", ".join("%s AS c%d" % (item, at) for at, item in enumerate(items))


# The oracles: each gives, for every query, either its rows or None where it refuses it.


def plain_value(value):
    """As JSON that keeps what it is: NaN and infinities have no number there."""
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


# What oracles say of a number that does not fit, of a division by zero and of a text that is no number.
REFUSED = "refused"


def ask_sqlite(statements, queries):
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA case_sensitive_like = ON")
    for statement in statements:
        database.execute(statement)
    answers = []
    for query in queries:
        try:
            rows = database.execute(query).fetchall()
            answers.append([[plain_value(value) for value in row] for row in rows])
        except (sqlite3.Error, OverflowError):
            answers.append(None)
    return answers


def duckdb_value(value):
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return plain_value(value)


def ask_duckdb(statements, queries):
    try:
        import duckdb
    except ImportError:
        sys.exit(skip("DuckDB", "python3 has no module duckdb; install it with `python3 -m pip install duckdb`"))
    database = duckdb.connect(":memory:")
    for statement in statements:
        database.execute(statement)
    answers = []
    for prepare, query in queries:
        database.execute("BEGIN")
        try:
            for statement in prepare:
                database.execute(statement)
            rows = database.execute(query).fetchall()
            answers.append([[duckdb_value(value) for value in row] for row in rows])
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            answers.append(REFUSED)
        except duckdb.Error as error:
            if "Division by zero" in str(error):
                answers.append(REFUSED)
            else:
                complain(query, error)
                answers.append(None)
        database.execute("ROLLBACK")
    return answers


def complain(query, error):
    """Where ORACLE_ERRORS is set: what an oracle does not understand is a fault of the generator."""
    if os.environ.get("ORACLE_ERRORS"):
        sys.stderr.write("%s\n  %s\n" % (query, str(error).splitlines()[0]))


def find_postgresql():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    initdb = found[-1] if found else shutil.which("initdb")
    return os.path.dirname(initdb) if initdb else None


def ask_postgresql(statements, queries):
    programs = find_postgresql()
    if programs is None:
        sys.exit(skip("PostgreSQL", "no initdb in /usr/lib/postgresql/*/bin or the PATH"))
    # It refuses to run as root; its packages bring a user for it.
    before = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode != 0:
            sys.exit(skip("PostgreSQL", "it does not run as root, and there is no user postgres to run it as"))
        before = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    folder = tempfile.mkdtemp(prefix="oracle-")
    os.chmod(folder, 0o777)
    data = os.path.join(folder, "data")

    def run(program, *arguments, **more):
        done = subprocess.run(before + [os.path.join(programs, program), *arguments], cwd=folder, capture_output=True, text=True, **more)
        if done.returncode != 0:
            sys.exit("%s: %s" % (program, done.stderr))
        return done.stdout

    try:
        run("initdb", "-D", data, "-U", "oracle", "--locale=C", "-E", "UTF8", "-A", "trust", "--no-sync")
        options = "-c listen_addresses='' -k %s -c fsync=off -c timezone=UTC" % folder
        run("pg_ctl", "-D", data, "-w", "-l", os.path.join(folder, "log"), "-o", options, "start", stdin=subprocess.DEVNULL)
        try:
            mark, state = "--- next ---", "--- state ---"
            script = ["%s;" % statement for statement in statements]
            for prepare, query in queries:
                script.append("\\echo '%s'" % mark)
                script += ["BEGIN;"] + ["%s;" % statement for statement in prepare]
                script.append("SELECT coalesce(json_agg(row_to_json(q)), '[]') FROM (%s) q;" % query)
                script.append("\\echo '%s' :SQLSTATE" % state)
                script.append("ROLLBACK;")
            out = run("psql", "-X", "-q", "-A", "-t", "-h", folder, "-U", "oracle", "-d", "postgres", input="\n".join(script))
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    answers = []
    for (_, query), part in zip(queries, out.split(mark)[1:]):
        rows, _, code = part.partition(state)
        rows, code = rows.strip(), code.strip()
        if code in ("22003", "22012", "22P02"):
            answers.append(REFUSED)
        elif rows:
            answers.append([list(row.values()) for row in json.loads(rows)])
        else:
            complain(query, code)
            answers.append(None)
    return answers


def skip(oracle, why):
    sys.stderr.write("skipped: %s is not asked: %s\n" % (oracle, why))
    return 3


def main_edges(oracle, seed, count):
    rng = random.Random(seed)
    data = oracle_edges.Data(rng)
    made = [oracle_edges.Query(rng).any() for _ in range(count)]
    tables = lambda dialect: setup(data, dialect, oracle_edges.TABLES, oracle_edges.TAGS)
    ask = {"postgresql": ask_postgresql, "duckdb": ask_duckdb}[oracle]
    answers = ask(tables(oracle), [(before(one, data, oracle), in_dialect(one.query, oracle)) for one in made])
    print(json.dumps({"oracle": oracle + "-edges", "seed": seed, "setup": tables("nilometer")}))
    for one, rows in zip(made, answers):
        case = {"query": in_dialect(one.query, "nilometer"), "ordered": one.ordered, "rows": rows}
        if one.before:
            case["before"] = before(one, data, "nilometer")
        if rows == REFUSED:
            # Elsewhere an oracle may have calculated what nobody needs.
            if not one.strict:
                continue
            case.update(rows=[], refused=True)
        if rows is not None and len(rows) <= 400:
            print(json.dumps(case))


def main():
    oracle, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if oracle == "duckdb" or sys.argv[4:] == ["edges"]:
        return main_edges(oracle, seed, count)
    rng = random.Random(seed)
    sqlite = oracle == "sqlite"
    data = Data(rng, special=not sqlite)
    made = [Query(rng, sqlite).any() for _ in range(count)]
    ask = ask_sqlite if sqlite else ask_postgresql
    queries = [query if sqlite else ([], query) for query, _ in made]
    answers = ask(setup(data, oracle), queries)
    print(json.dumps({"oracle": oracle, "seed": seed, "setup": setup(data, "nilometer")}))
    for (query, ordered), rows in zip(made, answers):
        # What an oracle refuses (an overflow, a division by zero) says nothing about an answer.
        if rows is not None and rows != REFUSED and len(rows) <= 400:
            print(json.dumps({"query": query, "ordered": ordered, "rows": rows}))


if __name__ == "__main__":
    main()
