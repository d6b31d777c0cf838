"""psql, as Debian has it, and the examples of the guide."""

import os
import re
import subprocess
import unittest
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
GUIDES = [os.path.join(HERE, *[".."] * 6, "docs", "guide", name) for name in ["postgresql.md", "timescaledb.md"]]


def psql(*arguments, text=None, database=None, who=None):
    command = ["psql", "--no-psqlrc", "--dbname", database or os.environ["PGDATABASE"], *arguments]
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env={**os.environ, **(who or {})})
    return done.stdout


class Psql(unittest.TestCase):
    def test_statements_are_answered(self):
        text = "DROP TABLE IF EXISTS p;\nCREATE TABLE p (time timestamptz, v double precision);\n"
        text += "INSERT INTO p VALUES ('2024-05-01 00:00:00Z', 1.5);\nSELECT * FROM p;\n\\copy p to stdout csv\n"
        self.assertEqual(
            psql("--tuples-only", "--no-align", text=text).split("\n")[-4:],
            ["INSERT 0 1", "2024-05-01 00:00:00+00|1.5", "2024-05-01 00:00:00+00,1.5", ""],
        )

    def test_rows_are_copied_in(self):
        text = "DROP TABLE IF EXISTS p;\nCREATE TABLE p (time timestamptz, v double precision);\n"
        text += "COPY p FROM STDIN;\n2024-05-01 00:00:00+00\t1\n2024-05-01 00:00:01+00\t\\N\n\\.\nSELECT count(*), count(v) FROM p;\n"
        self.assertEqual(psql("--quiet", "--tuples-only", "--no-align", text=text).split("\n")[-2:], ["2|1", ""])

    def test_an_error_shows_its_place(self):
        said = psql("--command", "SELECT nothing")
        self.assertIn("LINE 1: SELECT nothing\n               ^", said)

    def test_a_reader_drops_nothing(self):
        if "NILOMETER_URL" not in os.environ:
            # PostgreSQL has its own way to make one.
            return
        name, password, has_auth = os.environ["PGUSER"], os.environ["PGPASSWORD"], bool(os.environ["PGPASSWORD"])
        parameters = {"u": name, "p": password} if has_auth else {}
        for statement in ["CREATE DATABASE kept", "CREATE USER reader WITH PASSWORD 'r'", "GRANT READ ON kept TO reader"]:
            address = os.environ["NILOMETER_URL"] + "/query?" + urllib.parse.urlencode({**parameters, "q": statement})
            if has_auth or statement.startswith("CREATE DATABASE"):
                with urllib.request.urlopen(urllib.request.Request(address, method="POST")) as answer:
                    self.assertNotIn(b"error", answer.read())
        psql("--command", "CREATE TABLE t (time timestamptz, v double precision)", database="kept")
        psql("--command", "INSERT INTO t VALUES ('2024-05-01 00:00:00Z', 1.5)", database="kept")
        who = {"PGUSER": "reader", "PGPASSWORD": "r"} if has_auth else {}
        statements = ["DROP TABLE t", "DELETE FROM t", "ALTER TABLE t DROP COLUMN v", "DROP DATABASE kept"]
        if not has_auth:
            # Without authentication everybody may.
            self.assertIn("DELETE", psql("--command", "DELETE FROM t", database="kept"))
            return
        for statement in statements:
            said = psql("--command", statement, database="kept", who=who)
            self.assertIn("ERROR:", said, statement)
            self.assertRegex(said, "not (authorized|an administrator)", statement)
        left = psql("--tuples-only", "--no-align", "--command", "SELECT v FROM t", database="kept", who=who)
        self.assertEqual(left, "1.5\n")

    def test_a_table_is_described(self):
        psql("--command", "DROP TABLE IF EXISTS described; ")
        made = "CREATE TABLE described (id bigint PRIMARY KEY, name text NOT NULL, v double precision, UNIQUE (name))"
        self.assertEqual(psql("--command", made), "CREATE TABLE\n")
        said = psql("--command", "\\d described")
        expected = [
            "                  Table \"public.described\"",
            " Column |       Type       | Collation | Nullable | Default ",
            "--------+------------------+-----------+----------+---------",
            " id     | bigint           |           | not null | ",
            " name   | text             |           | not null | ",
            " v      | double precision |           |          | ",
            "Indexes:",
            "    \"described_pkey\" PRIMARY KEY, btree (id)",
            "    \"described_name_key\" UNIQUE CONSTRAINT, btree (name)",
            "",
            "",
        ]
        self.assertEqual(said.split("\n"), expected)

    def test_what_there_is_is_listed(self):
        psql("--command", "DROP TABLE IF EXISTS listed")
        psql("--command", "CREATE TABLE listed (id bigint PRIMARY KEY)")
        quiet = ["--tuples-only", "--no-align", "--field-separator", "|"]
        for command, wanted in [
            ("\\dt", "public|listed|table"),
            ("\\d", "public|listed|table"),
            ("\\di", "public|listed_pkey|index"),
            ("\\dn", "public|"),
            ("\\l", os.environ["PGDATABASE"] + "|"),
            ("\\du", os.environ["PGUSER"] + "|"),
        ]:
            said = psql(*quiet, "--command", command)
            self.assertTrue(any(line.startswith(wanted) for line in said.split("\n")), "%s: %s" % (command, said))

    def test_no_command_that_describes_fails(self):
        psql("--command", "DROP TABLE IF EXISTS listed")
        psql("--command", "CREATE TABLE listed (id bigint PRIMARY KEY)")
        commands = "d dt dt+ di+ dv dm ds dn+ df du l+ db dx dp z dT dD dC dL dO do dA dE des det dew dy dRp dRs drds ddp dconfig"
        for command in ["d listed", "d+ listed", "d listed_pkey", "d pg_class", "dt *.*", *commands.split()]:
            said = psql("--command", "\\" + command)
            self.assertNotIn("ERROR", said, command)

    def test_a_file_is_one_transaction(self):
        table = "DROP TABLE IF EXISTS p;\nCREATE TABLE p (time timestamptz, v double precision);\n"
        count = "SELECT count(*) FROM p;\n"
        insert = "INSERT INTO p VALUES ('2024-05-01 00:00:00Z', 1.5);\n"
        copy = "COPY p FROM STDIN;\n2024-05-01 00:00:00+00\t1\n\\.\n"
        quiet = ["--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]
        psql(*quiet, text=table)
        psql(*quiet, "--single-transaction", text=insert + copy + "SELECT nothing;\n")
        self.assertEqual(psql(*quiet, text=count), "0\n")
        psql(*quiet, "--single-transaction", text=insert + copy)
        self.assertEqual(psql(*quiet, text=count), "2\n")
        # An error takes back its own statement only.
        lines = "BEGIN;\n" + insert + "SELECT nothing;\n" + insert + "COMMIT;\n"
        psql("--set", "ON_ERROR_ROLLBACK=on", text=lines)
        self.assertEqual(psql(*quiet, text=count), "4\n")

    def test_a_server_says_that_it_is_there(self):
        done = subprocess.run(["pg_isready"], stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipIf("REFERENCE" in os.environ, "the guide is about our own server")
    def test_the_guide_shows_what_psql_shows(self):
        blocks = []
        for guide in GUIDES:
            with open(guide) as file:
                found = re.findall(r"^```psql\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
            self.assertTrue(found, guide)
            blocks += found
        for block in blocks:
            lines = block.split("\n")
            statements = [line[3:] for line in lines if line.startswith("=> ")]
            expected = "\n".join(line for line in lines if not line.startswith("=> ")).strip("\n")
            psql("--command", "DROP DATABASE IF EXISTS guide")
            said = psql(text="\n".join(statements) + "\n", database="postgres")
            # psql fills the last column up with blanks.
            said = "\n".join(line.rstrip() for line in said.split("\n") if not line.startswith("You are now connected"))
            self.assertEqual(said.strip("\n"), expected)


if __name__ == "__main__":
    unittest.main()
