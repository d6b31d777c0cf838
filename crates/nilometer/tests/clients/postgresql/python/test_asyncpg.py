"""asyncpg, which describes every statement and speaks binary only."""

import unittest
from datetime import datetime, timedelta, timezone

import asyncpg

from support import ADDRESS, COLUMNS, DATABASE

DAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
ROWS = [
    (DAY, 1.5, -7, True, "a", b"\x00\xff"),
    (DAY + timedelta(microseconds=1), None, None, None, None, None),
]


class Asyncpg(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.connection = await asyncpg.connect(database=DATABASE, **ADDRESS)
        self.addAsyncCleanup(self.connection.close)
        await self.connection.execute("DROP TABLE IF EXISTS a")
        await self.connection.execute("CREATE TABLE a (%s)" % COLUMNS)

    async def rows(self, query="SELECT time, v, n, ok, name, raw FROM a ORDER BY time", *values):
        return [tuple(row) for row in await self.connection.fetch(query, *values)]

    async def test_values_are_written_and_read(self):
        for row in ROWS:
            done = await self.connection.execute("INSERT INTO a (time, v, n, ok, name, raw) VALUES ($1, $2, $3, $4, $5, $6)", *row)
            self.assertEqual(done, "INSERT 0 1")
        self.assertEqual(await self.rows(), ROWS)
        self.assertEqual(await self.rows("SELECT v FROM a WHERE n = $1 AND time < $2", -7, DAY + timedelta(days=1)), [(1.5,)])
        self.assertEqual(await self.rows("SELECT n FROM a ORDER BY time LIMIT $1", 1), [(-7,)])

    async def test_parameters_and_columns_are_described(self):
        statement = await self.connection.prepare("SELECT time, v + 1 AS w FROM a WHERE v > $1 AND name = $2 AND $3 < time")
        self.assertEqual([kind.name for kind in statement.get_parameters()], ["float8", "text", "timestamptz"])
        columns = [(column.name, column.type.name) for column in statement.get_attributes()]
        self.assertEqual(columns, [("time", "timestamptz"), ("w", "float8")])
        insert = await self.connection.prepare("INSERT INTO a VALUES ($1, $2, $3, $4, $5, $6)")
        names = [kind.name for kind in insert.get_parameters()]
        self.assertEqual(names, ["timestamptz", "float8", "int8", "bool", "text", "bytea"])
        self.assertEqual(len(insert.get_attributes()), 0)

    async def test_rows_are_copied_both_ways(self):
        columns = ["time", "v", "n", "ok", "name", "raw"]
        done = await self.connection.copy_records_to_table("a", records=ROWS, columns=columns)
        self.assertEqual(done, "COPY 2")
        self.assertEqual(await self.rows(), ROWS)
        lines = []

        async def take(data):
            lines.append(data)

        await self.connection.copy_from_query("SELECT n, name FROM a ORDER BY time", output=take, format="csv", header=True)
        self.assertEqual(b"".join(lines), b"n,name\n-7,a\n,\n")

    async def test_a_cursor_reads_in_parts(self):
        records = [(DAY + timedelta(seconds=number), number) for number in range(200)]
        await self.connection.copy_records_to_table("a", records=records, columns=["time", "n"])
        async with self.connection.transaction():
            seen = [row["n"] async for row in self.connection.cursor("SELECT n FROM a ORDER BY n", prefetch=30)]
        self.assertEqual(seen, list(range(200)))

    async def test_errors_are_those_of_postgresql(self):
        with self.assertRaises(asyncpg.UndefinedTableError):
            await self.connection.fetch("SELECT * FROM nowhere")
        with self.assertRaises(asyncpg.UndefinedColumnError):
            await self.connection.fetch("SELECT nothing FROM a WHERE n = $1", 1)
        with self.assertRaises(asyncpg.DivisionByZeroError):
            await self.connection.fetch("SELECT 1 / 0")
        self.assertEqual(await self.connection.fetchval("SELECT 1"), 1)


if __name__ == "__main__":
    unittest.main()
