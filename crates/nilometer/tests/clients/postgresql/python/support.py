"""Where the server is, and a table of each test's own."""

import os
import unittest

import psycopg

ADDRESS = {
    "host": os.environ["PGHOST"],
    "port": int(os.environ["PGPORT"]),
    "user": os.environ["PGUSER"],
    "password": os.environ.get("PGPASSWORD") or None,
}
DATABASE = os.environ["PGDATABASE"]
COLUMNS = "time timestamptz, v double precision, n bigint, ok boolean, name text, raw bytea"


def connect(dbname=DATABASE, **more):
    address = {name: value for name, value in ADDRESS.items() if value is not None}
    return psycopg.connect(dbname=dbname, autocommit=True, **address, **more)


class TableTest(unittest.TestCase):
    """Each test has the table `t`, without rows."""

    def setUp(self):
        self.connection = connect()
        self.addCleanup(self.connection.close)
        self.connection.execute("DROP TABLE IF EXISTS t")
        self.connection.execute("CREATE TABLE t (%s)" % COLUMNS)

    def rows(self, query="SELECT * FROM t ORDER BY time", *values, **more):
        return self.connection.execute(query, *values, **more).fetchall()


# A column of each type that is declared, of which the second is the time.
DECLARED = [
    "DROP TABLE IF EXISTS every",
    "CREATE TABLE every (id integer NOT NULL, at timestamptz NOT NULL, sm smallint, re real, price numeric(10,2) DEFAULT 9.99,"
    " big numeric(30,4), name varchar(5), code char(4), u uuid, d date, ts timestamp, t time, i interval, j json, jb jsonb,"
    " CONSTRAINT cheap CHECK (price < 1000), CHECK (sm > -5))",
]


class DeclaredTest(TableTest):
    """Each test has the table `every`, without rows."""

    def setUp(self):
        self.connection = connect()
        self.addCleanup(self.connection.close)
        for statement in DECLARED:
            self.connection.execute(statement)
