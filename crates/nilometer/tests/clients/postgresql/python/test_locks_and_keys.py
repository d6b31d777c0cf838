"""Advisory locks, enumerations, foreign keys and numeric sums. What is stated here PostgreSQL 15 says too: `clients.py --reference`."""

import threading
import unittest
from decimal import Decimal

from psycopg import errors

from support import connect


class Locks(unittest.TestCase):
    KEY = 4_611_686_018_427_387_904

    def setUp(self):
        self.one, self.other = connect(), connect()
        self.addCleanup(self.one.close)
        self.addCleanup(self.other.close)

    def answer(self, connection, query, *values):
        return connection.execute(query, values).fetchone()[0]

    def test_a_lock_is_one_sessions_until_it_gives_it_back(self):
        self.one.execute("SELECT pg_advisory_lock(%s)", (self.KEY,))
        self.assertIs(self.answer(self.other, "SELECT pg_try_advisory_lock(%s)", self.KEY), False)
        self.assertIs(self.answer(self.one, "SELECT pg_advisory_unlock(%s)", self.KEY), True)
        self.assertIs(self.answer(self.other, "SELECT pg_try_advisory_lock(%s)", self.KEY), True)
        self.assertIs(self.answer(self.one, "SELECT pg_try_advisory_lock(1, 2)"), True)

    def test_who_waits_gets_it_when_the_session_ends(self):
        self.one.execute("SELECT pg_advisory_lock(%s)", (self.KEY + 1,))
        got = []

        def wait():
            self.other.execute("SELECT pg_advisory_lock(%s)", (self.KEY + 1,))
            got.append(True)

        waits = threading.Thread(target=wait)
        waits.start()
        waits.join(0.5)
        self.assertEqual(got, [])
        self.one.close()
        waits.join(20)
        self.assertEqual(got, [True])

    def test_locks_of_a_transaction_end_with_it(self):
        with self.one.transaction():
            self.one.execute("SELECT pg_advisory_xact_lock(%s)", (self.KEY + 2,))
            self.assertIs(self.answer(self.other, "SELECT pg_try_advisory_xact_lock(%s)", self.KEY + 2), False)
        self.assertIs(self.answer(self.other, "SELECT pg_try_advisory_lock(%s)", self.KEY + 2), True)

    def test_a_circle_is_a_deadlock(self):
        self.one.execute("SELECT pg_advisory_lock(%s)", (self.KEY + 3,))
        self.other.execute("SELECT pg_advisory_lock(%s)", (self.KEY + 4,))
        refused = []

        def take(connection, key):
            try:
                connection.execute("SELECT pg_advisory_lock(%s)", (key,))
            except errors.DeadlockDetected as error:
                refused.append(error)
                connection.execute("SELECT pg_advisory_unlock_all()")

        both = [threading.Thread(target=take, args=it) for it in [(self.one, self.KEY + 4), (self.other, self.KEY + 3)]]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(20)
        self.assertEqual(len(refused), 1)


class Tables(unittest.TestCase):
    def setUp(self):
        self.connection = connect()
        self.addCleanup(self.connection.close)
        self.drop()
        for statement in [
            "CREATE TYPE lk_mood AS ENUM ('sad', 'ok', 'happy')",
            "CREATE TABLE lk_parent (id bigint PRIMARY KEY, m lk_mood, n bigint)",
            "CREATE TABLE lk_child (id bigint PRIMARY KEY, parent bigint REFERENCES lk_parent ON DELETE CASCADE)",
            "INSERT INTO lk_parent VALUES (1, 'happy', 9223372036854775807), (2, 'sad', 9223372036854775807)",
            "INSERT INTO lk_child VALUES (1, 1), (2, 2)",
        ]:
            self.connection.execute(statement)
        self.addCleanup(self.drop)

    def drop(self):
        with connect() as connection:
            for statement in ["DROP TABLE IF EXISTS lk_child", "DROP TABLE IF EXISTS lk_parent", "DROP TYPE IF EXISTS lk_mood"]:
                connection.execute(statement)

    def rows(self, query, values=()):
        return self.connection.execute(query, values).fetchall()

    def test_labels_are_texts_in_their_order(self):
        self.assertEqual(self.rows("SELECT m FROM lk_parent ORDER BY m"), [("sad",), ("happy",)])
        self.connection.execute("INSERT INTO lk_parent (id, m) VALUES (%s, %s)", (3, "ok"))
        self.assertEqual(self.rows("SELECT id FROM lk_parent WHERE m > 'sad' ORDER BY m"), [(3,), (1,)])
        with self.assertRaises(errors.InvalidTextRepresentation):
            self.connection.execute("INSERT INTO lk_parent (id, m) VALUES (%s, %s)", (4, "angry"))

    def test_rows_point_to_rows(self):
        with self.assertRaises(errors.ForeignKeyViolation) as refused:
            self.connection.execute("INSERT INTO lk_child VALUES (%s, %s)", (3, 9))
        self.assertEqual(refused.exception.diag.constraint_name, "lk_child_parent_fkey")
        with self.assertRaises(errors.ForeignKeyViolation):
            with self.connection.cursor().copy("COPY lk_child FROM STDIN") as copy:
                copy.write_row((3, 9))
        self.connection.execute("DELETE FROM lk_parent WHERE id = 1")
        self.assertEqual(self.rows("SELECT id FROM lk_child"), [(2,)])

    def test_a_row_that_is_pointed_to_stays_until_the_transaction_ends(self):
        ended = []

        def delete():
            with connect() as other:
                try:
                    other.execute("DELETE FROM lk_parent WHERE id = 2")
                    ended.append("deleted")
                except errors.ForeignKeyViolation:
                    ended.append("refused")

        with self.connection.transaction():
            self.connection.execute("UPDATE lk_child SET parent = 2 WHERE id = 1")
            deletes = threading.Thread(target=delete)
            deletes.start()
            deletes.join(0.5)
            self.assertEqual(ended, [])
        deletes.join(20)
        self.assertEqual(ended, ["deleted"])
        self.assertEqual(self.rows("SELECT count(*) FROM lk_child"), [(0,)])

    def test_sums_and_means_are_numeric(self):
        for binary in [False, True]:
            found = self.connection.execute("SELECT sum(n), avg(id), sum(id) / 2 FROM lk_parent", binary=binary).fetchone()
            self.assertEqual(found, (Decimal(2) ** 64 - 2, Decimal("1.5"), Decimal("1.5")))
