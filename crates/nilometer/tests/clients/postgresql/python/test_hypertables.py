"""Hypertables over the wire: what a client is told beside the answer, and how it ends a rewrite of tags. PostgreSQL alone has none."""

import os
import threading
import time
import unittest

from psycopg import errors

from support import connect

# Slices of a rewrite have 100,000 rows; this makes several of them.
ROWS = 2_000_000


@unittest.skipIf("REFERENCE" in os.environ, "PostgreSQL alone makes no hypertables")
class Hypertables(unittest.TestCase):
    def setUp(self):
        self.connection = connect()
        self.addCleanup(self.connection.close)
        self.notices = []
        self.connection.add_notice_handler(lambda notice: self.notices.append((notice.severity, notice.message_primary)))
        self.execute("DROP TABLE IF EXISTS machines")
        self.execute("CREATE TABLE machines (time timestamptz NOT NULL, device text, room text, v bigint)")
        self.execute("SELECT create_hypertable('machines', 'time')")

    def execute(self, statement):
        return self.connection.execute(statement)

    def tags(self):
        return [name for (name,) in self.execute("SELECT column_name FROM system.columns WHERE table_name = 'machines' AND kind = 'tag' ORDER BY 1")]

    def rewrite(self):
        """The answer that a statement was cancelled comes at once, and its rewrite ends before the next of its rows: until then the table
        has one."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.execute("ALTER TABLE machines SET (timescaledb.compress_segmentby = 'device')")
            except errors.DependentObjectsStillExist:
                self.assertLess(time.monotonic(), deadline, "the rewrite goes on")

    def fill(self, rows, device):
        """Rows of COPY, as a loader sends them."""
        with self.connection.cursor().copy("COPY machines FROM STDIN") as copy:
            for begin in range(0, rows, 10_000):
                lines = ["2024-05-01 00:00:00Z".replace("00:00:00", "%02d:%02d:%02d" % (n // 3600 % 24, n // 60 % 60, n % 60)) + "\t%s\tr\t%d\n" % (device(n), n) for n in range(begin, begin + 10_000)]
                copy.write("".join(lines))

    def test_an_index_that_makes_no_tag_says_why(self):
        # It made none without a word, and queries by its column stayed slow.
        self.fill(10_000, lambda n: "d%d" % n)
        self.execute("CREATE INDEX ON machines (device, time DESC)")
        self.assertEqual(self.tags(), [])
        [(severity, text)] = self.notices
        self.assertEqual(severity, "NOTICE")
        self.assertIn('column "device" of the index is no tag of hypertable "machines"', text)
        self.assertIn("segmentby", text)

    def test_an_index_that_makes_a_tag_says_nothing_and_the_next_one_says_why_not(self):
        self.fill(10_000, lambda n: "d%d" % (n % 7))
        self.execute("CREATE INDEX ON machines (device, time DESC)")
        self.assertEqual((self.tags(), self.notices), (["device"], []))
        # An index that does not go on with the time was never meant as one.
        self.execute("CREATE INDEX ON machines (room)")
        self.assertEqual(self.notices, [])
        self.execute("CREATE INDEX ON machines (room, time)")
        self.assertEqual((self.tags(), len(self.notices)), (["device"], 1))
        self.assertIn("it has tags already", self.notices[0][1])
        # Of what failed nothing is told later.
        self.execute("SELECT 1")
        self.assertEqual(len(self.notices), 1)

    def test_a_rewrite_of_tags_ends_when_its_time_is_over_or_its_client_says_so(self):
        # It went on to its end whoever had cancelled it, and for as long as the rows took.
        self.fill(ROWS, lambda n: "d%d" % (n % 7))
        before = self.execute("SELECT count(*), sum(v), count(DISTINCT device) FROM machines").fetchall()
        self.execute("SET statement_timeout = 1")
        with self.assertRaises(errors.QueryCanceled):
            self.rewrite()
        self.execute("SET statement_timeout = 0")
        self.assertEqual(self.tags(), [])
        # Cancelled as soon as another connection sees it run, which is not the one before.
        watching = connect()
        self.addCleanup(watching.close)
        deadline = time.monotonic() + 60
        while watching.execute("SELECT count(*) FROM system.jobs WHERE job = 'rewrite'").fetchone() != (0,):
            self.assertLess(time.monotonic(), deadline, "the rewrite goes on")
        ended = threading.Event()
        seen = []

        def watch():
            while not ended.is_set():
                rows = watching.execute("SELECT detail FROM system.jobs WHERE job = 'rewrite'").fetchall()
                if rows:
                    seen.extend(rows)
                    self.connection.cancel()
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with self.assertRaises(errors.QueryCanceled):
                self.rewrite()
        finally:
            ended.set()
            watcher.join()
        self.assertRegex(seen[0][0], r'^\d+ of about \d+ rows of .*"machines" copied$')
        self.assertEqual(self.tags(), [])
        self.assertEqual(self.execute("SELECT count(*), sum(v), count(DISTINCT device) FROM machines").fetchall(), before)
        # The same statement with all the time that it takes.
        self.rewrite()
        self.assertEqual(self.tags(), ["device"])
        self.assertEqual(self.execute("SELECT count(*), sum(v), count(DISTINCT device) FROM machines").fetchall(), before)


if __name__ == "__main__":
    unittest.main()
