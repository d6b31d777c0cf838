"""InfluxDB's own shell, `influx`: statements by -execute in all its formats, by its prompt, and its import.

Where the server is and who asks, the script that starts it says in variables; without a user it asks nobody.
"""

import json
import os
import pty
import subprocess
import tempfile
import unittest
import urllib.parse

URL = urllib.parse.urlparse(os.environ["CLIENT_URL"])
USER = os.environ["CLIENT_USER"]
PASSWORD = os.environ["CLIENT_PASSWORD"]
DB = "shell_client"
IMPORT = """# DDL
DROP DATABASE shell_client
CREATE DATABASE shell_client
CREATE RETENTION POLICY "kept" ON "shell_client" DURATION 0s REPLICATION 1
# DML
# CONTEXT-DATABASE: shell_client
# CONTEXT-RETENTION-POLICY: autogen
cpu,host=a load=1.5,n=1i 1577836800
cpu,host=a load=2.5,n=-2i 1577836860
cpu,host=b\\ c load=10,text="x \\"y\\"" 1577836800
# CONTEXT-RETENTION-POLICY: kept
old v=7i 1577836800
"""


def influx(*arguments, text=None, user=USER, password=PASSWORD):
    command = [os.environ["CLIENT_SHELL"], "-host", URL.hostname, "-port", str(URL.port), *arguments]
    if user:
        command += ["-username", user, "-password", password]
    with tempfile.TemporaryDirectory() as home:
        # It writes a history of what was typed.
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": home})


def execute(statement, *arguments, **more):
    return influx("-database", DB, "-execute", statement, *arguments, **more).stdout


def typed(*lines):
    """What a terminal shows when somebody types these lines."""
    mine, its = pty.openpty()
    command = [os.environ["CLIENT_SHELL"], "-host", URL.hostname, "-port", str(URL.port)]
    if USER:
        command += ["-username", USER, "-password", PASSWORD]
    with tempfile.TemporaryDirectory() as home:
        # A terminal that can do nothing: it is shown what there is, without colours or moves.
        shell = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env={**os.environ, "HOME": home, "TERM": "dumb"})
        os.close(its)
        os.write(mine, "".join(line + "\n" for line in lines).encode())
        shown = b""
        while True:
            try:
                part = os.read(mine, 65536)
            except OSError:
                # The other end is closed.
                break
            if not part:
                break
            shown += part
        shell.wait(60)
        os.close(mine)
    return shown.decode().replace("\r\n", "\n")


class Shell(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(IMPORT)
            file.flush()
            run = influx("-import", "-path", file.name, "-precision", "s")
        self.assertIn("Processed 3 commands", run.stdout + run.stderr)
        self.assertIn("Processed 4 inserts", run.stdout + run.stderr)
        self.assertIn("Failed 0 inserts", run.stdout + run.stderr)

    def test_columns(self):
        self.assertEqual(
            execute("SELECT host, load, n FROM cpu", "-precision", "s").splitlines(),
            [
                "name: cpu",
                "time       host load n",
                "----       ---- ---- -",
                "1577836800 a    1.5  1",
                "1577836800 b c  10   ",
                "1577836860 a    2.5  -2",
            ],
        )
        self.assertEqual(
            execute("SELECT max(load) FROM cpu GROUP BY host", "-precision", "rfc3339").split("\n")[:6],
            ["name: cpu", "tags: host=a", "time                 max", "----                 ---", "2020-01-01T00:01:00Z 2.5", ""],
        )

    def test_json(self):
        self.assertEqual(
            json.loads(execute("SELECT count(load), sum(n) FROM cpu", "-format", "json")),
            {"results": [{"series": [{"name": "cpu", "columns": ["time", "count", "sum"], "values": [[0, 3, -1]]}]}]},
        )

    def test_csv(self):
        self.assertEqual(
            execute("SELECT load, text FROM cpu WHERE host = 'b c'", "-format", "csv", "-precision", "ms"),
            'name,time,load,text\ncpu,1577836800000,10,"x ""y"""\n',
        )

    def test_retention_policies(self):
        self.assertEqual(execute("SELECT v FROM kept.old", "-format", "csv", "-precision", "s"), "name,time,v\nold,1577836800,7\n")
        names = [line.split(",")[0] for line in execute("SHOW RETENTION POLICIES", "-format", "csv").splitlines()]
        self.assertEqual(names, ["name", "autogen", "kept"])

    def test_what_is_typed_at_the_prompt(self):
        shown = typed(
            "use shell_client", "format csv", "precision s", "insert cpu,host=d load=4 1577836920", "insert into kept old v=8i 1577836860",
            "select load from cpu where host = 'd'", "select v from kept.old", "use nothing_of_the_kind", "exit",
        )
        self.assertIn("Using database shell_client", shown)
        self.assertIn("name,time,load\ncpu,1577836920,4\n", shown)
        self.assertIn("name,time,v\nold,1577836800,7\nold,1577836860,8\n", shown)
        self.assertIn("Database nothing_of_the_kind doesn't exist", shown)

    def test_statements_that_change_something(self):
        self.assertEqual(execute("DELETE FROM cpu WHERE host = 'a' AND time < '2020-01-01T00:01:00Z'"), "")
        self.assertEqual(execute("SHOW SERIES", "-format", "csv").splitlines()[1:], ['"cpu,host=a"', '"cpu,host=b\\ c"', "old"])
        execute("DROP SERIES FROM cpu WHERE host = 'a'; DROP MEASUREMENT old")
        self.assertEqual(execute("SHOW SERIES", "-format", "csv").splitlines()[1:], ['"cpu,host=b\\ c"'])

    def test_errors(self):
        run = influx("-database", DB, "-execute", "SELECT FROM cpu")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("ERR: error parsing query: found FROM, expected identifier, string, number, bool at line 1, char 8", run.stdout + run.stderr)
        run = influx("-database", "shell_nowhere", "-execute", "SELECT v FROM m")
        self.assertIn("database not found: shell_nowhere", run.stdout + run.stderr)

    def test_users(self):
        if not USER:
            # Who sends a name to a server that asks nobody is let in whoever that is.
            self.assertIn("cpu", execute("SHOW MEASUREMENTS", user="shell_nobody", password="x"))
            return
        if "shell_reader" in execute("SHOW USERS"):
            execute("DROP USER shell_reader")
        self.assertEqual(execute("CREATE USER shell_reader WITH PASSWORD 'secret'; GRANT READ ON shell_client TO shell_reader").strip(), "")
        self.assertEqual(execute("SHOW GRANTS FOR shell_reader", "-format", "csv"), "database,privilege\nshell_client,READ\n")
        reader = {"user": "shell_reader", "password": "secret"}
        self.assertIn("cpu,0,3", execute("SELECT count(load) FROM cpu", "-format", "csv", **reader))
        run = influx("-database", DB, "-execute", "DROP MEASUREMENT cpu", **reader)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("ERR:", run.stdout + run.stderr)
        run = influx("-database", DB, "-execute", "SHOW MEASUREMENTS", user="shell_reader", password="wrong")
        self.assertIn("authorization failed", run.stdout + run.stderr)
        self.assertIn("cpu,0,3", execute("SELECT count(load) FROM cpu", "-format", "csv"))


if __name__ == "__main__":
    unittest.main()
