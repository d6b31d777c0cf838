"""Transactions over psycopg 3. What is stated here PostgreSQL 15 says too: `clients.py --reference`."""

import threading
import unittest
from datetime import datetime, timedelta, timezone

from psycopg import errors
from psycopg.pq import TransactionStatus

from support import TableTest, connect

DAY = datetime(2024, 5, 1, tzinfo=timezone.utc)


class TransactionTest(TableTest):
    """Beside the table `t` there is the table `r`, which has no time, with two rows."""

    def setUp(self):
        super().setUp()
        self.connection.execute("DROP TABLE IF EXISTS r")
        self.connection.execute("CREATE TABLE r (id bigint PRIMARY KEY, balance bigint, name text UNIQUE)")
        self.connection.execute("INSERT INTO r VALUES (1, 0, 'a'), (2, 0, 'b')")
        self.own = connect()
        self.addCleanup(self.own.close)
        self.own.autocommit = False

    def insert(self, connection, *numbers):
        for number in numbers:
            connection.execute("INSERT INTO t (time, n) VALUES (%s, %s)", (DAY + timedelta(seconds=number), number))

    def numbers(self, connection=None):
        rows = (connection or self.connection).execute("SELECT n FROM t ORDER BY n").fetchall()
        return [number for (number,) in rows]

    def accounts(self, connection=None):
        return (connection or self.connection).execute("SELECT id, balance, name FROM r ORDER BY id").fetchall()


class Ends(TransactionTest):
    def test_what_a_transaction_writes_is_its_own_until_it_commits(self):
        self.insert(self.own, 1, 2)
        self.own.execute("UPDATE r SET balance = balance + 5 WHERE id = 1")
        self.own.execute("INSERT INTO r VALUES (3, 7, 'c')")
        self.own.execute("UPDATE t SET v = n * 2")
        self.own.execute("DELETE FROM r WHERE id = 2")
        self.own.execute("DELETE FROM t WHERE n = 2")
        expected = [(1, 5, "a"), (3, 7, "c")]
        self.assertEqual(self.accounts(self.own), expected)
        self.assertEqual(self.numbers(self.own), [1])
        self.assertEqual(self.own.execute("SELECT sum(v), count(*) FROM t").fetchone(), (2.0, 1))
        self.assertEqual(self.own.execute("SELECT r.name FROM t JOIN r ON t.n = r.id").fetchall(), [("a",)])
        self.assertEqual(self.accounts(), [(1, 0, "a"), (2, 0, "b")])
        self.assertEqual(self.numbers(), [])
        self.own.commit()
        self.assertEqual(self.accounts(), expected)
        self.assertEqual(self.numbers(), [1])

    def test_a_number_that_was_given_in_what_is_rolled_back_is_not_given_again(self):
        self.connection.execute("DROP TABLE IF EXISTS numbered")
        self.connection.execute("CREATE TABLE numbered (id serial PRIMARY KEY, name text)")
        self.connection.execute("CREATE UNIQUE INDEX numbered_by_name ON numbered (name)")
        given = "INSERT INTO numbered (name) VALUES (%s), (%s) ON CONFLICT DO NOTHING RETURNING *"
        self.assertEqual(self.own.execute(given, ("a", "b")).fetchall(), [(1, "a"), (2, "b")])
        self.own.rollback()
        self.assertEqual(self.own.execute(given, ("a", "c")).fetchall(), [(3, "a"), (4, "c")])
        self.own.execute("SAVEPOINT s")
        with self.assertRaises(errors.UniqueViolation) as caught:
            self.own.execute("INSERT INTO numbered (name) VALUES ('a')")
        self.assertEqual(caught.exception.diag.constraint_name, "numbered_by_name")
        self.own.execute("ROLLBACK TO s")
        self.assertEqual(self.own.execute(given, ("c", "d")).fetchall(), [(7, "d")])
        self.own.commit()
        self.assertEqual(self.connection.execute("SELECT id, name FROM numbered ORDER BY id").fetchall(), [(3, "a"), (4, "c"), (7, "d")])

    def test_nothing_is_left_of_what_is_rolled_back(self):
        self.insert(self.own, 1)
        self.own.execute("DELETE FROM r")
        self.own.rollback()
        self.assertEqual(self.numbers(), [])
        self.assertEqual(len(self.accounts()), 2)

    def test_nothing_is_left_of_a_client_that_goes(self):
        self.insert(self.own, 1)
        self.own.execute("UPDATE r SET balance = 9 WHERE id = 1")
        self.own.close()
        self.connection.execute("SET statement_timeout = '20s'")
        self.connection.execute("UPDATE r SET balance = balance + 1 WHERE id = 1")
        self.assertEqual(self.accounts()[0], (1, 1, "a"))
        self.assertEqual(self.numbers(), [])

    def test_a_transaction_that_failed_does_nothing_more(self):
        self.insert(self.own, 1)
        with self.assertRaises(errors.UniqueViolation):
            self.own.execute("INSERT INTO r VALUES (1, 0, 'x')")
        self.assertEqual(self.own.info.transaction_status, TransactionStatus.INERROR)
        with self.assertRaises(errors.InFailedSqlTransaction):
            self.own.execute("SELECT 1")
        self.own.commit()
        self.assertEqual(self.numbers(), [])

    def test_a_savepoint_takes_back_what_came_after_it(self):
        self.insert(self.own, 1)
        with self.assertRaises(errors.UniqueViolation):
            with self.own.transaction():
                self.insert(self.own, 2)
                self.own.execute("UPDATE r SET balance = 9")
                self.own.execute("INSERT INTO r VALUES (3, 0, 'a')")
        with self.own.transaction():
            self.insert(self.own, 3)
        self.assertEqual(self.numbers(self.own), [1, 3])
        self.own.execute("SAVEPOINT outer_one")
        self.insert(self.own, 4)
        self.own.execute("SAVEPOINT inner_one")
        self.insert(self.own, 5)
        self.own.execute("ROLLBACK TO outer_one")
        with self.assertRaises(errors.InvalidSavepointSpecification):
            self.own.execute("ROLLBACK TO inner_one")
        self.own.execute("ROLLBACK TO SAVEPOINT outer_one")
        self.own.execute("RELEASE outer_one")
        self.own.commit()
        self.assertEqual(self.numbers(), [1, 3])
        self.assertEqual(self.accounts(), [(1, 0, "a"), (2, 0, "b")])

    def test_rows_are_copied_in_a_transaction(self):
        for ends in [self.own.rollback, self.own.commit]:
            with self.own.cursor() as cursor:
                with cursor.copy("COPY t (time, n) FROM STDIN") as copy:
                    for number in range(1000):
                        copy.write_row((DAY + timedelta(seconds=number), number))
                with cursor.copy("COPY r FROM STDIN") as copy:
                    copy.write_row((3, 1, "c"))
                cursor.execute("DELETE FROM t WHERE n >= 10")
            self.assertEqual(self.numbers(self.own), list(range(10)))
            self.assertEqual(len(self.accounts(self.own)), 3)
            self.assertEqual(self.numbers(), [])
            ends()
        self.assertEqual(self.numbers(), list(range(10)))
        self.assertEqual(len(self.accounts()), 3)

    def test_a_message_of_several_statements_is_one_transaction(self):
        self.connection.execute("INSERT INTO r VALUES (3, 0, 'c'); UPDATE r SET balance = 4 WHERE id = 3")
        self.assertEqual(self.accounts()[2], (3, 4, "c"))
        with self.assertRaises(errors.UniqueViolation):
            self.connection.execute("INSERT INTO r VALUES (4, 0, 'd'); INSERT INTO r VALUES (1, 0, 'e')")
        self.assertEqual(len(self.accounts()), 3)

    def test_a_read_only_transaction_does_not_write(self):
        self.own.execute("SET TRANSACTION READ ONLY")
        with self.assertRaises(errors.ReadOnlySqlTransaction):
            self.own.execute("UPDATE r SET balance = 1")

    def test_a_cursor_shows_what_there_was_when_it_was_opened(self):
        self.insert(self.own, 1, 2, 3)
        with self.own.cursor("c") as cursor:
            cursor.execute("SELECT n FROM t ORDER BY n")
            self.assertEqual(cursor.fetchmany(1), [(1,)])
            self.insert(self.own, 4)
            self.assertEqual(cursor.fetchall(), [(2,), (3,)])


class Meetings(TransactionTest):
    """Two transactions at one time."""

    def in_thread(self, work):
        failed = []

        def run():
            try:
                work()
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, failed

    def test_the_second_writer_of_a_row_waits_and_sees_what_the_first_has_done(self):
        self.own.execute("UPDATE r SET balance = balance + 10 WHERE id = 1")
        with connect() as other:
            other.autocommit = False

            def add():
                other.execute("UPDATE r SET balance = balance + 1 WHERE id = 1")
                other.commit()

            thread, failed = self.in_thread(add)
            thread.join(0.3)
            self.assertTrue(thread.is_alive(), "it did not wait")
            self.own.commit()
            thread.join(20)
            self.assertEqual((thread.is_alive(), failed), (False, []))
        self.assertEqual(self.accounts()[0], (1, 11, "a"))

    def test_whoever_waits_can_be_cancelled(self):
        self.own.execute("UPDATE r SET balance = 5 WHERE id = 1")
        self.connection.execute("SET statement_timeout = 200")
        with self.assertRaises(errors.QueryCanceled):
            self.connection.execute("UPDATE r SET balance = 6 WHERE id = 1")
        self.own.commit()
        self.assertEqual(self.accounts()[0], (1, 5, "a"))

    def test_of_two_that_wait_for_each_other_one_is_told(self):
        with connect() as other:
            other.autocommit = False
            self.own.execute("UPDATE r SET balance = 1 WHERE id = 1")
            other.execute("UPDATE r SET balance = 2 WHERE id = 2")
            thread, failed = self.in_thread(lambda: other.execute("UPDATE r SET balance = 2 WHERE id = 1"))
            thread.join(0.3)
            try:
                self.own.execute("UPDATE r SET balance = 1 WHERE id = 2")
            except errors.DeadlockDetected as error:
                failed.append(error)
            self.own.rollback()
            thread.join(20)
            self.assertEqual([type(error) for error in failed], [errors.DeadlockDetected])
            other.rollback()

    def test_each_statement_sees_what_is_committed_by_then(self):
        self.assertEqual(self.accounts(self.own)[0][1], 0)
        self.connection.execute("UPDATE r SET balance = 8 WHERE id = 1")
        self.insert(self.connection, 1)
        self.assertEqual(self.accounts(self.own)[0][1], 8)
        self.assertEqual(self.numbers(self.own), [1])

    def test_a_sum_stays_what_it_is_under_many_transfers(self):
        def transfer(seed):
            with connect() as connection:
                connection.autocommit = False
                for number in range(15):
                    amount = (seed * 7 + number) % 5 + 1
                    order = [(1, -amount), (2, amount)]
                    for account, change in order:
                        connection.execute("UPDATE r SET balance = balance + %s WHERE id = %s", (change, account))
                    self.insert(connection, seed * 100 + number)
                    connection.commit()

        threads = [self.in_thread(lambda seed=seed: transfer(seed)) for seed in range(4)]
        for thread, _ in threads:
            thread.join(60)
        self.assertEqual([failed for _, failed in threads], [[]] * 4)
        self.assertEqual(sum(balance for _, balance, _ in self.accounts()), 0)
        self.assertEqual(len(self.numbers()), 60)


if __name__ == "__main__":
    unittest.main()
