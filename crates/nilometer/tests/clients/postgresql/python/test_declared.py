"""Declared types and constraints with psycopg 3 and asyncpg. What is stated here PostgreSQL 15 says too: `clients.py --reference`."""

import asyncio
import unittest
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import asyncpg
import psycopg
from psycopg import errors

from support import ADDRESS, DATABASE, DECLARED, DeclaredTest, TableTest, connect

ROW = (
    1,
    datetime(2024, 1, 1, tzinfo=timezone.utc),
    7,
    1.5,
    Decimal("12.34"),
    Decimal("12345678901234567890.1234"),
    "abc",
    "ab  ",
    uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    date(2024, 2, 29),
    datetime(2024, 2, 29, 12, 0, 0, 500000),
    time(23, 59, 59, 500000),
    timedelta(days=1, hours=2, microseconds=3),
    {"b": 1},
    {"a": 2, "b": [1, None]},
)
NULLS = (2, datetime(2024, 1, 2, tzinfo=timezone.utc)) + (None,) * 13
COLUMNS = "id, at, sm, re, price, big, name, code, u, d, ts, t, i, j, jb"
KINDS = [23, 1184, 21, 700, 1700, 1700, 1043, 1042, 2950, 1082, 1114, 1083, 1186, 114, 3802]


def inserted(connection, row, mark="%s"):
    values = [psycopg.types.json.Json(value) if isinstance(value, dict) else value for value in row]
    marks = ", ".join([mark] * len(values))
    connection.execute("INSERT INTO every (%s) VALUES (%s)" % (COLUMNS, marks), values)


class Types(DeclaredTest):
    def test_values_come_back_as_they_went(self):
        for mark in ["%s", "%b", "%t"]:
            self.connection.execute("DELETE FROM every")
            for row in [ROW, NULLS]:
                inserted(self.connection, row, mark)
            for binary in [False, True]:
                rows = self.connection.execute("SELECT %s FROM every ORDER BY id" % COLUMNS, binary=binary).fetchall()
                self.assertEqual(rows, [ROW, NULLS], "%s, binary: %s" % (mark, binary))

    def test_types_and_modifiers_are_told(self):
        columns = self.connection.execute("SELECT %s FROM every" % COLUMNS).description
        self.assertEqual([column.type_code for column in columns], KINDS)
        told = {column.name: (column.precision, column.scale, column.display_size) for column in columns}
        self.assertEqual(told["price"][:2], (10, 2))
        self.assertEqual(told["big"][:2], (30, 4))
        self.assertEqual(told["name"][2], 5)
        self.assertEqual(told["code"][2], 4)

    def test_conditions_take_values_of_the_types(self):
        inserted(self.connection, ROW)
        for column, value in zip(COLUMNS.split(", "), ROW):
            # Our own char(n) is compared without the spaces that fill it up.
            if column not in ["j", "jb", "re", "code"]:
                rows = self.rows("SELECT id FROM every WHERE %s = %%s" % column, (value,))
                self.assertEqual(rows, [(1,)], column)
        self.assertEqual(self.rows("SELECT id FROM every WHERE code = %s", ("ab",)), [(1,)])

    def test_numbers_are_exact(self):
        for id, price in [(1, "0.10"), (2, "0.20"), (4, "-0.005"), (5, "0.004999")]:
            self.connection.execute("INSERT INTO every (id, at, price) VALUES (%s, now(), %s)", (id, Decimal(price)))
        rows = self.rows("SELECT id, price FROM every ORDER BY id")
        self.assertEqual(rows, [(1, Decimal("0.10")), (2, Decimal("0.20")), (4, Decimal("-0.01")), (5, Decimal("0.00"))])
        self.assertEqual(self.rows("SELECT sum(price) FROM every WHERE id < 3"), [(Decimal("0.30"),)])

    def test_a_copy_out_is_a_copy_in_again(self):
        for row in [ROW, NULLS]:
            inserted(self.connection, row)
        for options in ["", "(FORMAT csv)", "(FORMAT binary)"]:
            with self.connection.cursor().copy("COPY every (%s) TO STDOUT %s" % (COLUMNS, options)) as copy:
                data = b"".join(bytes(part) for part in copy)
            self.connection.execute("DELETE FROM every")
            with self.connection.cursor().copy("COPY every (%s) FROM STDIN %s" % (COLUMNS, options)) as copy:
                copy.write(data)
            self.assertEqual(self.rows("SELECT %s FROM every ORDER BY id" % COLUMNS), [ROW, NULLS], options)

    def test_defaults_are_filled_in(self):
        at = datetime(2024, 1, 1, tzinfo=timezone.utc)
        self.connection.execute("INSERT INTO every (id, at) VALUES (1, %s)", (at,))
        self.connection.execute("INSERT INTO every (id, at, price) VALUES (2, %s, DEFAULT)", (at,))
        self.connection.execute("INSERT INTO every (id, at, price) VALUES (3, %s, NULL)", (at,))
        with self.connection.cursor().copy("COPY every (id, at) FROM STDIN") as copy:
            copy.write("4\t2024-01-01\n")
        rows = self.rows("SELECT id, price FROM every ORDER BY id")
        self.assertEqual(rows, [(1, Decimal("9.99")), (2, Decimal("9.99")), (3, None), (4, Decimal("9.99"))])


class Constraints(DeclaredTest):
    def refused(self, values, columns):
        with self.assertRaises(psycopg.Error) as refused:
            self.connection.execute("INSERT INTO every (%s) VALUES (%s)" % (columns, values))
        return refused.exception

    def test_refusals_have_the_codes_of_postgresql(self):
        for columns, values, code in [
            ("sm", "32768", "22003"),
            ("id", "2147483648", "22003"),
            ("re", "'1e50'", "22003"),
            ("price", "123456789", "22003"),
            ("name", "'abcdef'", "22001"),
            ("code", "'abcde'", "22001"),
            ("u", "'x'", "22P02"),
            ("j", "'{'", "22P02"),
            ("jb", "'{'", "22P02"),
            ("d", "'x'", "22007"),
            ("d", "'2024-02-30'", "22008"),
        ]:
            columns = "sm, at, id" if columns == "id" else "id, at, " + columns
            error = self.refused("1, now(), " + values, columns)
            self.assertEqual(error.sqlstate, code, "%s %s: %s" % (columns, values, error))
        self.assertEqual(self.rows("SELECT count(*) FROM every"), [(0,)])

    def test_null_where_none_may_be_names_the_column(self):
        for values, columns in [("now(), 1", "at, sm"), ("NULL, now()", "id, at")]:
            error = self.refused(values, columns)
            self.assertIsInstance(error, errors.NotNullViolation)
            self.assertEqual((error.diag.table_name, error.diag.column_name), ("every", "id"))

    def test_a_check_is_named(self):
        for columns, values, name in [("price", "1000", "cheap"), ("sm", "-5", "every_sm_check")]:
            error = self.refused("1, now(), " + values, "id, at, " + columns)
            self.assertIsInstance(error, errors.CheckViolation)
            self.assertEqual((error.diag.table_name, error.diag.constraint_name), ("every", name))

    def test_an_update_meets_the_constraints_too(self):
        inserted(self.connection, ROW)
        for change, kind in [
            ("price = price * 100", errors.CheckViolation),
            ("id = NULL", errors.NotNullViolation),
            ("sm = 40000", errors.NumericValueOutOfRange),
            ("name = 'abcdef'", errors.StringDataRightTruncation),
        ]:
            with self.assertRaises(kind):
                self.connection.execute("UPDATE every SET " + change)
        self.assertEqual(self.rows("SELECT %s FROM every" % COLUMNS), [ROW])

    def test_a_copy_with_a_wrong_row_leaves_nothing_and_says_where(self):
        for line, code, place in [
            ("2\t2024-01-02\t40000\tx", "22003", "line 2, column sm"),
            ("2\t2024-01-02\t1\tabcdef", "22001", "line 2, column name"),
            ("2\t2024-01-02\t-5\tx", "23514", "line 2"),
            ("\\N\t2024-01-02\t1\tx", "23502", "line 2"),
        ]:
            with self.assertRaises(psycopg.Error) as refused:
                with self.connection.cursor().copy("COPY every (id, at, sm, name) FROM STDIN") as copy:
                    copy.write("1\t2024-01-01\t1\tx\n%s\n" % line)
            self.assertEqual(refused.exception.sqlstate, code, line)
            self.assertIn(place, refused.exception.diag.context, line)
        self.assertEqual(self.rows("SELECT count(*) FROM every"), [(0,)])

    def test_a_key_that_is_there_is_named(self):
        self.connection.execute("DROP TABLE IF EXISTS people")
        self.connection.execute("CREATE TABLE people (id uuid PRIMARY KEY, mail varchar(40), born date, UNIQUE (mail))")
        key = uuid.UUID(int=7)
        self.connection.execute("INSERT INTO people VALUES (%s, 'a@b', '1999-12-31')", (key,))
        for values, name in [((key, "x"), "people_pkey"), ((uuid.UUID(int=8), "a@b"), "people_mail_key")]:
            with self.assertRaises(errors.UniqueViolation) as refused:
                self.connection.execute("INSERT INTO people (id, mail) VALUES (%s, %s)", values)
            self.assertEqual(refused.exception.diag.constraint_name, name)
        self.assertEqual(self.rows("SELECT * FROM people"), [(key, "a@b", date(1999, 12, 31))])


class Numbers(TableTest):
    """Sequences and identities, and what a session remembers of them."""

    def setUp(self):
        super().setUp()
        self.connection.execute("DROP TABLE IF EXISTS numbered, owned")
        self.connection.execute("DROP SEQUENCE IF EXISTS s")

    def refused(self, statement, code):
        with self.assertRaises(psycopg.Error) as refused:
            self.connection.execute(statement)
        self.assertEqual(refused.exception.sqlstate, code, "%s: %s" % (statement, refused.exception))

    def one(self, query):
        return self.connection.execute(query).fetchone()[0]

    def test_a_session_remembers_what_it_was_given(self):
        self.assertEqual(self.connection.execute("CREATE SEQUENCE s").statusmessage, "CREATE SEQUENCE")
        self.refused("SELECT currval('s')", "55000")
        self.refused("SELECT lastval()", "55000")
        self.assertEqual([self.one("SELECT nextval('s')") for _ in range(3)], [1, 2, 3])
        with connect() as other:
            self.assertEqual(other.execute("SELECT nextval('s')").fetchone(), (4,))
        with connect() as third, self.assertRaises(errors.ObjectNotInPrerequisiteState):
            third.execute("SELECT currval('s')")
        self.assertEqual((self.one("SELECT currval('s')"), self.one("SELECT lastval()")), (3, 3))
        self.connection.execute("CREATE TABLE owned (id serial PRIMARY KEY, v text)")
        self.connection.execute("INSERT INTO owned (v) VALUES ('a'), ('b')")
        self.assertEqual((self.one("SELECT lastval()"), self.one("SELECT currval('s')")), (2, 3))
        self.assertEqual(self.one("SELECT currval(pg_get_serial_sequence('owned', 'id'))"), 2)
        self.assertEqual(self.one("SELECT setval('s', 100)"), 100)
        self.assertEqual((self.one("SELECT currval('s')"), self.one("SELECT lastval()")), (100, 2))
        self.assertEqual(self.one("SELECT nextval('s')"), 101)
        self.assertEqual(self.connection.execute("DROP SEQUENCE s").statusmessage, "DROP SEQUENCE")

    def test_a_number_that_a_rollback_takes_back_is_not_given_again(self):
        self.connection.execute("CREATE SEQUENCE s")
        with psycopg.connect(dbname=DATABASE, **{k: v for k, v in ADDRESS.items() if v is not None}) as own:
            self.assertEqual(own.execute("SELECT nextval('s')").fetchone(), (1,))
            own.rollback()
            self.assertEqual(own.execute("SELECT currval('s'), nextval('s')").fetchone(), (1, 2))

    def test_refusals_have_the_codes_of_postgresql(self):
        self.connection.execute("CREATE SEQUENCE s MAXVALUE 2")
        self.connection.execute("CREATE TABLE numbered (id bigint PRIMARY KEY DEFAULT nextval('s'), v text)")
        self.connection.execute("INSERT INTO numbered (v) VALUES ('a'), ('b')")
        for statement, code in [
            ("INSERT INTO numbered (v) VALUES ('c')", "2200H"),
            ("SELECT nextval('s')", "2200H"),
            ("SELECT setval('s', 3)", "22003"),
            ("SELECT setval('s', 0)", "22003"),
            ("SELECT nextval('nothing')", "42P01"),
            ("CREATE SEQUENCE s", "42P07"),
            ("CREATE SEQUENCE numbered", "42P07"),
            ("CREATE TABLE s (id integer PRIMARY KEY)", "42P07"),
            ("CREATE SEQUENCE wrong INCREMENT 0", "22023"),
            ("CREATE SEQUENCE wrong START 0", "22023"),
            ("DROP SEQUENCE nothing", "42P01"),
            ("DROP SEQUENCE s", "2BP01"),
        ]:
            self.refused(statement, code)
        self.assertEqual(self.rows("SELECT id FROM numbered ORDER BY id"), [(1,), (2,)])

    def test_what_is_always_generated_is_given_nothing_else(self):
        self.connection.execute("CREATE TABLE owned (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer DEFAULT 7, v text)")
        self.connection.execute("INSERT INTO owned (v) VALUES ('a'), ('b')")
        for statement in [
            "INSERT INTO owned (id, v) VALUES (9, 'c')",
            "INSERT INTO owned (id, v) VALUES (DEFAULT, 'c'), (9, 'c')",
            "INSERT INTO owned (id, v) SELECT 9, 'c'",
            "UPDATE owned SET id = 9",
            "UPDATE owned SET id = id",
        ]:
            self.refused(statement, "428C9")
        rows = self.rows("UPDATE owned SET id = DEFAULT, n = DEFAULT WHERE v = 'a' RETURNING id, n, v")
        self.assertEqual(rows, [(3, 7, "a")])
        self.assertEqual(self.rows("INSERT INTO owned AS o (v) VALUES ('c') RETURNING o.id, o.n"), [(4, 7)])

    def test_a_unique_index_is_made_of_rows_that_keep_it(self):
        self.connection.execute("CREATE TABLE owned (id integer PRIMARY KEY, a integer, b integer)")
        self.connection.execute("CREATE INDEX owned_plain ON owned (b)")
        self.connection.execute("INSERT INTO owned VALUES (1, 10, 7), (2, 20, 7), (3, NULL, 8), (4, NULL, 9)")
        self.refused("CREATE UNIQUE INDEX one_b ON owned (b)", "23505")
        self.connection.execute("CREATE UNIQUE INDEX one_a ON owned (a)")
        with self.assertRaises(errors.UniqueViolation) as refused:
            self.connection.execute("INSERT INTO owned VALUES (5, 20, 1)")
        self.assertEqual(refused.exception.diag.constraint_name, "one_a")
        names = self.rows("SELECT indexname FROM pg_indexes WHERE tablename = 'owned' ORDER BY 1")
        self.assertEqual(names, [("one_a",), ("owned_pkey",), ("owned_plain",)])
        self.assertEqual(self.rows("SELECT * FROM owned ORDER BY id"), [(1, 10, 7), (2, 20, 7), (3, None, 8), (4, None, 9)])

    def test_constraints_that_are_added_look_at_the_rows_that_are_there(self):
        self.connection.execute("CREATE TABLE owned (id integer PRIMARY KEY, a integer, b text)")
        self.connection.execute("INSERT INTO owned VALUES (1, 10, 'x'), (2, 10, NULL), (3, 4, 'y')")
        for change, code in [
            ("ADD CONSTRAINT large CHECK (a > 5)", "23514"),
            ("ADD UNIQUE (a)", "23505"),
            ("ALTER COLUMN b SET NOT NULL", "23502"),
            ("ADD COLUMN c integer NOT NULL", "23502"),
            ("ADD FOREIGN KEY (a) REFERENCES owned", "23503"),
            ("ADD FOREIGN KEY (a) REFERENCES owned (a)", "42830"),
            ("ADD PRIMARY KEY (a)", "42P16"),
            ("ALTER COLUMN id DROP NOT NULL", "42P16"),
            ("ADD CONSTRAINT owned_pkey CHECK (a > 0)", "42710"),
            ("DROP CONSTRAINT nowhere", "42704"),
            ("DROP COLUMN nowhere", "42703"),
            ("ADD COLUMN b integer", "42701"),
            ("ALTER COLUMN b TYPE integer", "42804"),
            ("ADD COLUMN d integer DEFAULT 3 CHECK (d > 5)", "23514"),
        ]:
            with self.subTest(change):
                self.refused("ALTER TABLE owned " + change, code)
        self.connection.execute("ALTER TABLE owned ADD COLUMN c numeric(5,2) DEFAULT 1.5 NOT NULL, ADD CONSTRAINT some CHECK (a + c > 5)")
        self.assertEqual(self.rows("SELECT * FROM owned ORDER BY id"), [
            (1, 10, "x", Decimal("1.50")), (2, 10, None, Decimal("1.50")), (3, 4, "y", Decimal("1.50")),
        ])
        with self.assertRaises(errors.CheckViolation) as refused:
            self.connection.execute("INSERT INTO owned VALUES (4, 3)")
        self.assertEqual(refused.exception.diag.constraint_name, "some")


class Asyncpg(unittest.TestCase):
    def test_values_come_back_as_they_went(self):
        with connect() as connection:
            for statement in DECLARED:
                connection.execute(statement)

        async def run():
            connection = await asyncpg.connect()
            try:
                marks = ", ".join("$%d" % (at + 1) for at in range(13))
                columns = ", ".join(COLUMNS.split(", ")[:13])
                await connection.execute("INSERT INTO every (%s) VALUES (%s)" % (columns, marks), *ROW[:13])
                return [tuple(row) for row in await connection.fetch("SELECT %s FROM every" % columns)]
            finally:
                await connection.close()

        self.assertEqual(asyncio.run(run()), [ROW[:13]])


if __name__ == "__main__":
    unittest.main()
