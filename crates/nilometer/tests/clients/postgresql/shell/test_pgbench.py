"""pgbench with the statements of its TPC-B script, and tables of the same columns."""

import os
import re
import subprocess
import tempfile
import unittest

from test_psql import psql

# What `pgbench --initialize` makes has no keys before it is filled, and gets them by ALTER TABLE; here they are there at once.
TABLES = """
DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
CREATE TABLE pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84), PRIMARY KEY (tid)) WITH (fillfactor=100);
CREATE TABLE pgbench_accounts (aid int not null, bid int, abalance int, filler char(84), PRIMARY KEY (aid)) WITH (fillfactor=100);
CREATE TABLE pgbench_branches (bid int not null, bbalance int, filler char(88), PRIMARY KEY (bid)) WITH (fillfactor=100);
"""
FILL = "BEGIN;\nINSERT INTO pgbench_branches (bid, bbalance) VALUES (1, 0);\nINSERT INTO pgbench_tellers (tid, bid, tbalance) VALUES %s;\n%sCOMMIT;\n" % (
    ", ".join("(%d, 1, 0)" % number for number in range(1, 11)),
    "COPY pgbench_accounts FROM STDIN;\n%s\\.\n" % "".join("%d\t1\t0\t\n" % number for number in range(1, 1001)),
)
SUMS = """
SELECT sum(abalance) FROM pgbench_accounts;
SELECT sum(tbalance) FROM pgbench_tellers;
SELECT sum(bbalance) FROM pgbench_branches;
SELECT sum(delta) FROM pgbench_history;
SELECT count(*) FROM pgbench_history;
"""
# The built-in script tpcb-like, with the number of accounts of the tables above.
SCRIPT = r"""
\set aid random(1, 1000)
\set bid 1
\set tid random(1, 10)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
CLIENTS, EACH = 8, 15


class Pgbench(unittest.TestCase):
    def run_script(self, *more):
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(SCRIPT)
            file.flush()
            command = ["pgbench", "--no-vacuum", "--client", str(CLIENTS), "--jobs", "2", "--transactions", str(EACH)]
            command += ["--file", file.name, *more, os.environ["PGDATABASE"]]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        processed = re.search(r"transactions actually processed: (\d+)/(\d+)", done.stdout)
        self.assertTrue(processed, done.stdout)
        self.assertEqual(processed.groups(), (str(CLIENTS * EACH),) * 2, done.stdout)

    def test_balances_agree_after_eight_clients(self):
        psql(text=TABLES)
        said = psql("--quiet", text=FILL)
        self.assertEqual(said, "")
        rounds = 0
        for protocol in ["simple", "extended", "prepared"]:
            self.run_script("--protocol", protocol)
            rounds += 1
            *sums, count = psql("--quiet", "--tuples-only", "--no-align", text=SUMS).split()
            self.assertEqual(int(count), rounds * CLIENTS * EACH)
            self.assertEqual(len(sums), 4)
            self.assertEqual(len(set(sums)), 1, sums)


if __name__ == "__main__":
    unittest.main()
