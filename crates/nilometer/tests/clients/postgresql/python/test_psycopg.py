"""psycopg 3. What is stated here PostgreSQL 15 says too: `clients.py --reference`."""

import threading
import time
import unittest
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import psycopg
from psycopg import errors

from support import TableTest, connect

DAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
ROWS = [
    (DAY, 1.5, -7, True, "a 'quoted' \u00e4", b"\x00\xff"),
    (DAY + timedelta(microseconds=1), None, None, None, None, None),
    (DAY + timedelta(days=1), -0.0, 2**63 - 1, False, "tab\there\\", b""),
]
INSERT = "INSERT INTO t (time, v, n, ok, name, raw) VALUES (%s, %s, %s, %s, %s, %s)"


class Values(TableTest):
    def test_what_was_written_is_read_again_as_text_and_binary(self):
        for row in ROWS:
            self.assertEqual(self.connection.execute(INSERT, row).rowcount, 1)
        for binary in [False, True]:
            rows = self.connection.execute("SELECT time, v, n, ok, name, raw FROM t ORDER BY time", binary=binary).fetchall()
            self.assertEqual(rows, ROWS, "binary: %s" % binary)

    def test_parameters_are_sent_as_binary_too(self):
        with self.connection.cursor() as cursor:
            cursor.execute(INSERT.replace("%s", "%b"), ROWS[0])
        self.assertEqual(self.rows("SELECT time, v, n, ok, name, raw FROM t"), ROWS[:1])

    def test_types_of_answers_are_told(self):
        query = "SELECT 1::bigint, 1.5::float8, true, 'x'::text, now(), NULL"
        kinds = [column.type_code for column in self.connection.execute(query).description]
        self.assertEqual(kinds, [20, 701, 16, 25, 1184, 25])

    def test_a_number_as_text_is_compared_as_a_number(self):
        self.connection.execute(INSERT, (DAY, 9.0, 9, True, "x", None))
        for column in ["v", "n"]:
            rows = self.rows("SELECT n FROM t WHERE %s < %%s" % column, ("10",))
            self.assertEqual(rows, [(9,)], column)

    def test_a_time_is_found_by_itself(self):
        for row in ROWS:
            self.connection.execute(INSERT, row)
        for row in ROWS:
            rows = self.rows("SELECT n FROM t WHERE time = %s", (row[0],))
            self.assertEqual(rows, [(row[2],)])

    def test_lists_are_arrays(self):
        for row in ROWS:
            self.connection.execute(INSERT, row)
        rows = self.rows("SELECT n FROM t WHERE n = ANY(%s)", ([-7, 5],))
        self.assertEqual(rows, [(-7,)])

    def test_a_parameter_is_compared_by_is_distinct_from(self):
        """What followed the parameter was taken for part of it, so that it was to be true or false, and the statement was refused."""
        for row in ROWS:
            self.connection.execute(INSERT, row)
        for condition, values, expected in [
            ("name IS DISTINCT FROM %s AND v > 1", ["x"], [-7]),
            ("name IS NOT DISTINCT FROM %s OR n = %s", ["a 'quoted' \u00e4", 2**63 - 1], [-7, 2**63 - 1]),
            ("NOT name IS DISTINCT FROM %s AND n = %s", ["x", 1], []),
            ("%s IS DISTINCT FROM n AND name IS NOT NULL", [-7], [2**63 - 1]),
        ]:
            rows = self.rows("SELECT n FROM t WHERE %s ORDER BY n" % condition, values)
            self.assertEqual(rows, [(one,) for one in expected], condition)

    def test_times_are_shown_in_the_zone_of_the_session(self):
        self.connection.execute("SET TIME ZONE 'America/New_York'")
        shown = self.rows("SELECT TIMESTAMPTZ '2024-05-01 12:00:00Z'")[0][0]
        self.assertEqual(shown.utcoffset(), timedelta(hours=-4))
        self.assertEqual(self.connection.info.timezone.key, "America/New_York")


class Statements(TableTest):
    def test_prepared_statements_are_used_again(self):
        for number in range(20):
            self.connection.execute(INSERT, (DAY + timedelta(seconds=number), 1.0, number, True, "x", None), prepare=True)
        for number in range(20):
            rows = self.rows("SELECT n FROM t WHERE time = %s", (DAY + timedelta(seconds=number),), prepare=True)
            self.assertEqual(rows, [(number,)])

    def test_many_rows_in_a_pipeline(self):
        rows = [(DAY + timedelta(seconds=number), float(number), number, True, "x", None) for number in range(300)]
        with self.connection.cursor() as cursor:
            cursor.executemany(INSERT, rows)
            self.assertEqual(cursor.rowcount, 300)
        self.assertEqual(self.rows("SELECT count(*), sum(v) FROM t"), [(300, 44850.0)])

    def test_changes_tell_how_many_rows(self):
        for row in ROWS:
            self.connection.execute(INSERT, row)
        self.assertEqual(self.connection.execute("UPDATE t SET v = %s WHERE n = %s", (3.5, -7)).rowcount, 1)
        self.assertEqual(self.rows("SELECT v FROM t WHERE n = -7"), [(3.5,)])
        self.assertEqual(self.connection.execute("DELETE FROM t WHERE n IS NOT NULL").statusmessage, "DELETE 2")

    def test_a_cursor_fetches_in_parts(self):
        for number in range(10):
            self.connection.execute(INSERT, (DAY + timedelta(seconds=number), 1.0, number, True, "x", None))
        with self.connection.transaction():
            with self.connection.cursor("c") as cursor:
                cursor.itersize = 3
                cursor.execute("SELECT n FROM t ORDER BY n")
                self.assertEqual(cursor.fetchmany(4), [(0,), (1,), (2,), (3,)])
                self.assertEqual([row[0] for row in cursor], [4, 5, 6, 7, 8, 9])

    def test_a_statement_is_cancelled(self):
        timer = threading.Timer(0.2, self.connection.cancel)
        timer.start()
        begun = time.monotonic()
        with self.assertRaises(errors.QueryCanceled):
            self.connection.execute(LONG)
        timer.join()
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(self.rows("SELECT 1"), [(1,)])

    def test_a_statement_has_its_time(self):
        self.connection.execute("SET statement_timeout = 100")
        with self.assertRaises(errors.QueryCanceled):
            self.connection.execute(LONG)
        self.connection.execute("RESET statement_timeout")


LONG = (
    "WITH a AS (SELECT * FROM (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) AS x (n)), b AS (SELECT a1.n + a2.n + a3.n + a4.n + a5.n AS n FROM a a1, a a2, a a3, a a4, a a5)"
    " SELECT count(*) FROM b b1, b b2 WHERE b1.n + b2.n < 0"
)


class Errors(TableTest):
    def test_errors_have_their_codes_and_places(self):
        for query, code, position in [
            ("SELECT * FROM nowhere", "42P01", 15),
            ("SELECT nothing FROM t", "42703", 8),
            ("SELEC 1", "42601", 1),
            ("SELECT 1/0", "22012", None),
            ("SELECT no_such_function(1)", "42883", None),
            ("CREATE TABLE t (time timestamptz, v double precision)", "42P07", None),
            ("DROP TABLE nowhere", "42P01", None),
            ("SET no_such_setting = 1", "42704", None),
        ]:
            with self.assertRaises(psycopg.Error) as caught:
                self.connection.execute(query)
            self.assertEqual(caught.exception.sqlstate, code, query)
            if position:
                self.assertEqual(int(caught.exception.diag.statement_position), position, query)

    def test_an_error_leaves_the_connection_as_it_was(self):
        for _ in range(3):
            with self.assertRaises(errors.UndefinedTable):
                self.connection.execute("SELECT * FROM nowhere WHERE n = %s", (1,))
        self.assertEqual(self.rows("SELECT 1"), [(1,)])


class Copy(TableTest):
    COPY = "COPY t (time, v, n, ok, name, raw) FROM STDIN"

    def test_rows_go_in_and_out_in_each_format(self):
        for options in ["", " (FORMAT csv)", " (FORMAT binary)"]:
            self.connection.execute("DELETE FROM t")
            with self.connection.cursor() as cursor:
                with cursor.copy(self.COPY + (options if "csv" not in options else "")) as copy:
                    if "binary" in options:
                        copy.set_types(["timestamptz", "float8", "int8", "bool", "text", "bytea"])
                    for row in ROWS:
                        copy.write_row(row)
                self.assertEqual(cursor.rowcount, 3)
                self.assertEqual(self.rows("SELECT time, v, n, ok, name, raw FROM t ORDER BY time"), ROWS)
                with cursor.copy("COPY (SELECT time, v, n, ok, name, raw FROM t ORDER BY time) TO STDOUT" + options) as copy:
                    data = b"".join(copy)
                self.connection.execute("DELETE FROM t")
                with cursor.copy(self.COPY + options) as copy:
                    copy.write(data)
            self.assertEqual(self.rows("SELECT time, v, n, ok, name, raw FROM t ORDER BY time"), ROWS, options)

    def test_text_is_as_postgresql_writes_it(self):
        for row in ROWS:
            self.connection.execute(INSERT, row)
        with self.connection.cursor() as cursor:
            # The header came as a message of its own, which the driver took for a row.
            for select, expected in [("SELECT 1::bigint, 'a'::text", [(1, "a")]), ("SELECT n, name FROM t WHERE false", [])]:
                with cursor.copy("COPY (%s) TO STDOUT (FORMAT binary)" % select) as copy:
                    copy.set_types(["int8", "text"])
                    self.assertEqual(list(copy.rows()), expected)
            with cursor.copy("COPY (SELECT time, v, n, ok, name, raw FROM t ORDER BY time) TO STDOUT") as copy:
                lines = b"".join(copy).decode().split("\n")
        self.assertEqual(
            lines,
            [
                "2024-05-01 00:00:00+00\t1.5\t-7\tt\ta 'quoted' \u00e4\t\\\\x00ff",
                "2024-05-01 00:00:00.000001+00\t\\N\t\\N\t\\N\t\\N\t\\N",
                "2024-05-02 00:00:00+00\t-0\t9223372036854775807\tf\ttab\\there\\\\\t\\\\x",
                "",
            ],
        )

    def test_a_wrong_value_names_its_line_and_column_and_leaves_the_table(self):
        line = "2024-05-01 00:00:00+00\t%s\t1\tt\tx\t\\\\x00\n"
        with self.connection.cursor() as cursor:
            with self.assertRaises(errors.InvalidTextRepresentation) as caught:
                with cursor.copy(self.COPY) as copy:
                    copy.write(line % "1" + line % "much")
        self.assertIn("COPY t, line 2, column v: \"much\"", caught.exception.diag.context)
        self.assertEqual(self.rows("SELECT count(*) FROM t"), [(0,)])

    def test_what_a_client_gives_up_is_not_stored(self):
        with self.assertRaises(ZeroDivisionError):
            with self.connection.cursor() as cursor:
                with cursor.copy(self.COPY) as copy:
                    copy.write_row(ROWS[0])
                    raise ZeroDivisionError
        self.assertEqual(self.rows("SELECT count(*) FROM t"), [(0,)])

    def test_a_hundred_thousand_rows(self):
        with self.connection.cursor() as cursor:
            with cursor.copy("COPY t (time, v, n) FROM STDIN") as copy:
                for number in range(100_000):
                    copy.write("2024-05-01 00:%02d:%02d.%03d+00\t%d.5\t%d\n" % (number // 60_000, number // 1000 % 60, number % 1000, number, number))
            self.assertEqual(cursor.rowcount, 100_000)
        self.assertEqual(self.rows("SELECT count(*), sum(n), max(v) FROM t"), [(100_000, Decimal(4_999_950_000), 99_999.5)])


class Sessions(unittest.TestCase):
    def test_databases_that_tools_know_are_there(self):
        for name in ["postgres", "template1"]:
            with connect(name) as connection:
                self.assertEqual(connection.execute("SELECT 1").fetchone(), (1,))
        with self.assertRaises(psycopg.OperationalError) as caught:
            connect("nowhere")
        self.assertIn("does not exist", str(caught.exception))

    def test_settings_are_shown_as_they_were_set(self):
        with connect(application_name="proof") as connection:
            self.assertEqual(connection.execute("SHOW application_name").fetchone(), ("proof",))
            connection.execute("SET statement_timeout = '2s'")
            self.assertIn(connection.execute("SHOW statement_timeout").fetchone()[0], ["2s", "2000ms"])
            connection.execute("RESET ALL")
            self.assertEqual(connection.execute("SHOW statement_timeout").fetchone(), ("0",))

    def test_a_transaction_reads(self):
        with connect() as connection:
            connection.autocommit = False
            self.assertEqual(connection.execute("SELECT 1").fetchone(), (1,))
            self.assertEqual(connection.info.transaction_status, psycopg.pq.TransactionStatus.INTRANS)
            connection.commit()
            with self.assertRaises(psycopg.Error):
                connection.execute("SELECT * FROM nowhere")
            with self.assertRaises(errors.InFailedSqlTransaction):
                connection.execute("SELECT 1")
            connection.rollback()
            self.assertEqual(connection.execute("SELECT 1").fetchone(), (1,))


if __name__ == "__main__":
    unittest.main()
