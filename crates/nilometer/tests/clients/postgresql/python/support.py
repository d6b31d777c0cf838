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
