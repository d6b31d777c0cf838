"""Columns of arrays, and plans as JSON, with psycopg 3 and asyncpg. What is stated here of arrays PostgreSQL 15 says too: `clients.py --reference`."""

import asyncio
import math
import unittest
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal

import asyncpg
from psycopg import errors

from support import ADDRESS, DATABASE, TableTest, connect

TABLE = (
    "CREATE TABLE arrays (at timestamptz NOT NULL, i int[], l bigint[], s smallint[], t text[], f double precision[], z timestamptz[], b boolean[], u uuid[],"
    " n numeric(10,2)[], d date[], v varchar(5)[])"
)
COLUMNS = "at, i, l, s, t, f, z, b, u, n, d, v"
KINDS = [1184, 1007, 1016, 1005, 1009, 1022, 1185, 1000, 2951, 1231, 1182, 1015]
DAY = datetime(2024, 1, 1, tzinfo=timezone.utc)
ROWS = [
    (
        DAY,
        [1, -2, None],
        [9_000_000_000],
        [-3],
        ["a", "b c", None, "", "NULL", '"', "\\", "x,y", "{}"],
        [1.5, -0.25, None],
        [datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=timezone.utc), None],
        [True, False, None],
        [uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), None],
        [Decimal("1.00"), Decimal("-2.35")],
        [date(2024, 2, 29)],
        ["ab", None],
    ),
    (datetime(2024, 1, 2, tzinfo=timezone.utc),) + ([],) * 11,
    (datetime(2024, 1, 3, tzinfo=timezone.utc),) + (None,) * 11,
]


class Arrays(TableTest):
    def setUp(self):
        self.connection = connect()
        self.addCleanup(self.connection.close)
        self.connection.execute("DROP TABLE IF EXISTS arrays")
        self.connection.execute(TABLE)

    def insert(self, mark):
        for row in ROWS:
            self.connection.execute("INSERT INTO arrays (%s) VALUES (%s)" % (COLUMNS, ", ".join([mark] * len(row))), row)

    def test_values_come_back_as_they_went(self):
        for mark in ["%s", "%b", "%t"]:
            self.connection.execute("DELETE FROM arrays")
            self.insert(mark)
            for binary in [False, True]:
                rows = self.rows("SELECT %s FROM arrays ORDER BY at" % COLUMNS, binary=binary)
                self.assertEqual(rows, ROWS, "%s, binary: %s" % (mark, binary))

    def test_types_are_told(self):
        columns = self.connection.execute("SELECT %s FROM arrays" % COLUMNS).description
        self.assertEqual([column.type_code for column in columns], KINDS)

    def test_copies_are_whole_in_every_format(self):
        self.insert("%s")
        for form in ["text", "csv", "binary"]:
            with self.connection.cursor().copy("COPY arrays TO STDOUT (FORMAT %s)" % form) as copy:
                data = b"".join(copy)
            self.connection.execute("DELETE FROM arrays")
            with self.connection.cursor().copy("COPY arrays FROM STDIN (FORMAT %s)" % form) as copy:
                copy.write(data)
            self.assertEqual(self.rows("SELECT %s FROM arrays ORDER BY at" % COLUMNS), ROWS, form)

    def test_what_is_no_array_is_refused_and_nothing_is_stored(self):
        for column, text, error in [
            ("i", "{1,x}", errors.InvalidTextRepresentation),
            ("i", "1,2", errors.InvalidTextRepresentation),
            ("i", "{1", errors.InvalidTextRepresentation),
            ("s", "{40000}", errors.NumericValueOutOfRange),
            ("v", "{abcdefg}", errors.StringDataRightTruncation),
            ("z", "{yesterday noon}", errors.InvalidDatetimeFormat),
        ]:
            with self.assertRaises(error, msg=text), self.connection.cursor().copy("COPY arrays (at, %s) FROM STDIN" % column) as copy:
                copy.write_row(("2024-01-01 00:00:00+00", text))
            self.assertEqual(self.rows("SELECT count(*) FROM arrays"), [(0,)])

    def test_asyncpg_sends_and_reads_them(self):
        async def run():
            connection = await asyncpg.connect(**{name: value for name, value in ADDRESS.items() if value is not None}, database=DATABASE)
            marks = ", ".join("$%d" % (at + 1) for at in range(len(ROWS[0])))
            await connection.executemany("INSERT INTO arrays (%s) VALUES (%s)" % (COLUMNS, marks), ROWS)
            found = await connection.fetch("SELECT %s FROM arrays ORDER BY at" % COLUMNS)
            by = await connection.fetch("SELECT i FROM arrays WHERE $1 = ANY (i)", 1)
            within = await connection.fetch("SELECT l FROM arrays WHERE l && $1::bigint[]", [9_000_000_000, 1])
            await connection.close()
            return [tuple(row) for row in found], [tuple(row) for row in by], [tuple(row) for row in within]

        found, by, within = asyncio.run(run())
        self.assertEqual(found, ROWS)
        self.assertEqual(by, [(ROWS[0][1],)])
        self.assertEqual(within, [(ROWS[0][2],)])

    def test_nan_and_infinity_are_kept(self):
        self.connection.execute("INSERT INTO arrays (at, f) VALUES (%s, %s)", (DAY, [math.inf, -math.inf, math.nan]))
        for binary in [False, True]:
            ((found,),) = self.rows("SELECT f FROM arrays", binary=binary)
            self.assertEqual(found[:2], [math.inf, -math.inf])
            self.assertTrue(math.isnan(found[2]))


class Plans(TableTest):
    """The form in which explain.dalibo.com, pgAdmin and DBeaver read a plan."""

    def node(self, plan):
        self.assertIsInstance(plan["Node Type"], str)
        for name in ["Startup Cost", "Total Cost", "Plan Rows", "Plan Width"]:
            self.assertIn(name, plan)
        for below in plan.get("Plans", []):
            self.node(below)
        return [plan] + [one for below in plan.get("Plans", []) for one in self.node(below)]

    def test_a_plan_is_one_value_of_json(self):
        self.connection.execute("INSERT INTO t (time, v) VALUES ('2024-01-01', 2), ('2024-01-02', 1)")
        cursor = self.connection.execute("EXPLAIN (FORMAT JSON) SELECT v FROM t ORDER BY v")
        self.assertEqual([(column.name, column.type_code) for column in cursor.description], [("QUERY PLAN", 114)])
        ((whole,),) = cursor.fetchall()
        self.assertEqual(len(whole), 1)
        nodes = self.node(whole[0]["Plan"])
        self.assertIn("Sort", [node["Node Type"] for node in nodes])
        self.assertEqual([node["Relation Name"] for node in nodes if "Scan" in node["Node Type"]], ["t"])
        self.assertNotIn("Execution Time", whole[0])

    def test_analyze_counts_rows_and_time(self):
        self.connection.execute("INSERT INTO t (time, v) VALUES ('2024-01-01', 2), ('2024-01-02', 1)")
        for options in ["ANALYZE, FORMAT JSON", "ANALYZE true, BUFFERS, COSTS, VERBOSE off, TIMING on, FORMAT json"]:
            ((whole,),) = self.connection.execute("EXPLAIN (%s) SELECT v FROM t ORDER BY v" % options).fetchall()
            nodes = self.node(whole[0]["Plan"])
            self.assertEqual([node["Actual Rows"] for node in nodes if node["Node Type"] == "Sort"], [2])
            self.assertGreater(whole[0]["Execution Time"], 0)
            self.assertIn("Planning Time", whole[0])


if __name__ == "__main__":
    unittest.main()
