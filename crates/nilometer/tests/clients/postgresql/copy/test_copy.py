"""COPY of more rows than the server's batch takes, through psql: the server of these tests takes 500 rows in one. What is stated here
PostgreSQL 15 says too: `clients.py --reference --only copy`, but for what the last class says of our limits."""

import os
import subprocess
import time
import unittest

IS_REFERENCE = bool(os.environ.get("REFERENCE"))
ROWS = 5000
# 2024-05-01 00:00:00 UTC.
START = 1714521600


def psql(*commands, data=None):
    """What psql prints, one line a row, and what it complains of."""
    words = [word for command in commands for word in ("--command", command)]
    command = ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", "--set", "VERBOSITY=verbose"]
    done = subprocess.run([*command, *words], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    return done.stdout.strip(), done.stderr


def line(number, value=None):
    at = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(START + number))
    return "%s\thost%d\t%s\n" % (at, number % 7, number if value is None else value)


def lines(count=ROWS, **replaced):
    return "".join(replaced.get("line%d" % number, line(number)) for number in range(1, count + 1))


class Copy(unittest.TestCase):
    COLUMNS = "time timestamptz NOT NULL, host text, n bigint CHECK (n < 1000000)"

    def setUp(self):
        self.make(self.COLUMNS)

    def make(self, columns):
        _, errors = psql("DROP TABLE IF EXISTS copied", "CREATE TABLE copied (%s)" % columns)
        self.assertNotIn("ERROR", errors)

    def sums(self):
        return psql("SELECT count(*), sum(n), count(DISTINCT host), max(time) - min(time) FROM copied")[0]

    def refused(self, data, code, *words, command="\\copy copied FROM STDIN"):
        _, errors = psql(command, data=data)
        self.assertIn("ERROR:  %s" % code, errors)
        for word in words:
            self.assertIn(word, errors)
        self.assertEqual(psql("SELECT count(*) FROM copied")[0], "0")

    # By hand: 5000 * 5001 / 2.
    WHOLE = "5000|12502500|7|01:23:19"

    def test_all_rows_are_there_in_each_format(self):
        out, errors = psql("\\copy copied FROM STDIN", data=lines())
        self.assertEqual((out, errors), ("COPY 5000", ""))
        self.assertEqual(self.sums(), self.WHOLE)
        for how in ["FORMAT csv, HEADER", "FORMAT binary"]:
            dump = subprocess.run(
                ["psql", "--no-psqlrc", "--command", "COPY copied TO STDOUT (%s)" % how], stdout=subprocess.PIPE, timeout=300, check=True
            ).stdout
            self.make(self.COLUMNS)
            read = subprocess.run(
                ["psql", "--no-psqlrc", "--command", "COPY copied FROM STDIN (%s)" % how], input=dump, stdout=subprocess.PIPE, timeout=300, check=True
            )
            self.assertEqual(read.stdout, b"COPY 5000\n", how)
            self.assertEqual(self.sums(), self.WHOLE, how)

    def test_an_error_in_the_last_line_leaves_nothing_and_names_it(self):
        place = "COPY copied, line 5000, column n"
        self.refused(lines(line5000=line(5000, "much")), "22P02", place)
        self.refused(lines() + "2024-05-01\ta\n", "22P04", "COPY copied, line 5001")
        self.refused(lines(line5000="\\N\ta\t1\n"), "23502", "time")
        self.refused(lines(line4321=line(4321, 1000000)), "23514", "line 4321")

    def test_what_is_left_out_gets_its_default(self):
        self.make("time timestamptz NOT NULL, host text DEFAULT 'none', n bigint, id bigserial")
        data = "".join(row.split("\t")[0] + "\t" + row.split("\t")[2] for row in lines().splitlines(True))
        out, errors = psql("\\copy copied (time, n) FROM STDIN", data=data)
        self.assertEqual((out, errors), ("COPY 5000", ""))
        found = psql("SELECT count(*), sum(n), min(host), count(DISTINCT id), max(id) - min(id) FROM copied")[0]
        self.assertEqual(found, "5000|12502500|none|5000|4999")

    def test_a_key_that_is_there_or_comes_twice_is_refused(self):
        self.make("time timestamptz NOT NULL, host text NOT NULL, n bigint, PRIMARY KEY (time)")
        self.refused(lines() + line(17), "23505")
        psql("\\copy copied FROM STDIN", data=lines(10))
        _, errors = psql("\\copy copied FROM STDIN", data="".join(line(number) for number in range(4000, 5, -1)))
        self.assertIn("ERROR:  23505", errors)
        self.assertEqual(psql("SELECT count(*) FROM copied")[0], "10")
        out, _ = psql("\\copy copied FROM STDIN", data="".join(line(number) for number in range(4000, 10, -1)))
        self.assertEqual(out, "COPY 3990")
        self.assertEqual(psql("SELECT count(*), sum(n) FROM copied")[0], "4000|8002000")

    def test_a_transaction_sees_it_and_ends_with_it(self):
        for end, expected in [("ROLLBACK", "0|"), ("COMMIT", "4682|11005041")]:
            out, errors = psql(
                "BEGIN",
                "\\copy copied FROM STDIN",
                "SELECT count(*), sum(n) FROM copied",
                "DELETE FROM copied WHERE n <= 10",
                "UPDATE copied SET n = n - 1 WHERE n > 4990",
                "INSERT INTO copied SELECT min(time), 'more', 10 FROM copied",
                "SELECT count(*), sum(n) FROM copied",
                "DELETE FROM copied WHERE n > 4700",
                "DELETE FROM copied WHERE n BETWEEN 4692 AND 4700",
                end,
                data=lines(),
            )
            self.assertEqual(errors, "", end)
            self.assertIn("5000|12502500", out)
            # By hand: 12502500 - 55 - 10 + 10.
            self.assertIn("4991|12502445", out)
            found = psql("SELECT count(*), sum(n) FROM copied")[0]
            # By hand: 11 to 4691, and 10: 4691 * 4692 / 2 - 55 + 10.
            self.assertEqual(found, expected, end)

    def test_a_client_that_dies_leaves_nothing(self):
        command = ["psql", "--no-psqlrc", "--command", "COPY copied FROM STDIN"]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # More than one chunk of a megabyte, so that parts are written.
        client.stdin.write(lines(100000).encode())
        client.stdin.flush()
        time.sleep(0.5)
        client.kill()
        client.wait()
        for stream in [client.stdin, client.stdout, client.stderr]:
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self.assertEqual(psql("SELECT count(*) FROM copied")[0], "0")
        out, _ = psql("\\copy copied FROM STDIN", data=lines())
        self.assertEqual(out, "COPY 5000")

    def test_a_copy_that_is_given_up_leaves_nothing(self):
        copied = "COPY copied FROM STDIN;\n" + lines(60000) + "\\.\nSELECT 1 / 0;\n"
        done = subprocess.run(
            ["psql", "--no-psqlrc", "--single-transaction", "--set", "ON_ERROR_STOP=1"], input=copied, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300
        )
        self.assertIn("division by zero", done.stderr)
        self.assertEqual(psql("SELECT count(*) FROM copied")[0], "0")


@unittest.skipIf(IS_REFERENCE, "limits of ours")
class Limits(unittest.TestCase):
    def test_a_relation_takes_many_batches_or_nothing(self):
        # A COPY into a table without time was one batch, and a longer one was refused.
        numbers = lambda *ranges: "".join("%d\n" % number for of in ranges for number in of)
        for kind in ["bigint PRIMARY KEY", "bigint"]:
            psql("DROP TABLE IF EXISTS related")
            psql("CREATE TABLE related (id %s)" % kind)
            out, errors = psql("\\copy related FROM STDIN", data=numbers(range(40000)))
            self.assertEqual((out, errors), ("COPY 40000", ""))
            # By hand: 40000 * 39999 / 2.
            whole = "40000|799980000"
            self.assertEqual(psql("SELECT count(*), sum(id) FROM related")[0], whole)
            _, errors = psql("\\copy related FROM STDIN", data=numbers(range(40000, 70000)) + "x\n")
            self.assertIn("line 30001", errors)
            self.assertEqual(psql("SELECT count(*), sum(id) FROM related")[0], whole)
            if "KEY" in kind:
                _, errors = psql("\\copy related FROM STDIN", data=numbers(range(40000, 70000), [7]))
                self.assertIn("23505", errors)
                _, errors = psql("\\copy related FROM STDIN", data=numbers(range(40000, 70000), [40000]))
                self.assertIn("23505", errors)
                self.assertEqual(psql("SELECT count(*), sum(id) FROM related")[0], whole)
            out, _ = psql("BEGIN", "\\copy related FROM STDIN", "SELECT count(*) FROM related", "ROLLBACK", data=numbers(range(40000, 70000)))
            self.assertIn("70000", out)
            self.assertEqual(psql("SELECT count(*), sum(id) FROM related")[0], whole)

    def test_a_relation_is_not_changed_beside_it(self):
        psql("DROP TABLE IF EXISTS related, copied", "DROP TABLE IF EXISTS related", "DROP TABLE IF EXISTS copied")
        psql("CREATE TABLE related (id bigint PRIMARY KEY)", "CREATE TABLE copied (time timestamptz, host text, n bigint)")
        _, errors = psql("BEGIN", "\\copy copied FROM STDIN", "INSERT INTO related VALUES (1)", "COMMIT", data=lines())
        self.assertIn("54000", errors)
        self.assertIn("tables without time", errors)
        self.assertEqual(psql("SELECT count(*) FROM copied")[0], "0")


if __name__ == "__main__":
    unittest.main()
