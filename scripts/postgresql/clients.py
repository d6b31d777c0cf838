#!/usr/bin/env python3
"""Real clients of PostgreSQL against our program: psql, psycopg 3, asyncpg, SQLAlchemy, pgJDBC, node-postgres and pgx.

Does: install the versions that the lock files name below the folder of builds, start the program without and with
authentication, and with TLS, run each client's tests (crates/nilometer/tests/clients/postgresql), count them. Does not: skip what cannot
be installed; that fails.

    python3 scripts/postgresql/clients.py [--program FILE] [--only shell,python,java,node,go,tls,copy] [--reference]

With --reference the same tests run against the PostgreSQL that PGHOST, PGPORT, PGUSER and PGDATABASE name: what they state
is what clients see there.
"""

import argparse
import importlib.util
import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
INFLUXDB = os.path.join(HERE, "..", "influxdb")
sys.path.insert(0, INFLUXDB)
import servers  # noqa: E402

# Installing, running and counting are the same for the clients of both.
spec = importlib.util.spec_from_file_location("influxdb_clients", os.path.join(INFLUXDB, "clients.py"))
shared = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shared)
shared.TESTS = TESTS = os.path.join(servers.ROOT, "crates", "nilometer", "tests", "clients", "postgresql")
GREETING = "listening on postgresql://"


class Shell:
    """psql and pg_isready, as the system has them."""

    def __init__(self, _caches):
        pass

    def install(self):
        shared.must(["psql", "--version"])
        shared.must(["pg_isready", "--version"])

    def command(self, _is_reference):
        return [sys.executable, "-B", "-m", "unittest", "discover", "-s", os.path.join(TESTS, "shell"), "-v"], TESTS, {}


class Python(shared.Python):
    """psycopg 3, asyncpg and SQLAlchemy."""

    def command(self, _is_reference):
        return super().command(False)


class Java:
    """pgJDBC, as Debian has it (libpostgresql-jdbc-java); its test is compiled as it starts."""

    LIBRARY = "/usr/share/java/postgresql.jar"

    def __init__(self, _caches):
        pass

    def install(self):
        shared.must(["javac", "-version"])
        if not os.path.exists(self.LIBRARY):
            raise RuntimeError("%s is missing; install libpostgresql-jdbc-java" % self.LIBRARY)

    def command(self, _is_reference):
        return ["java", "-cp", self.LIBRARY, os.path.join(TESTS, "java", "Metadata.java")], TESTS, {}


class Go(shared.Go):
    """pgx 5, and what the loader of TSBS does with pgx 4 and lib/pq."""

    FILES = [*shared.Go.FILES, "go/tsbs_test.go"]

    def command(self, is_reference):
        command, folder, more = super().command(is_reference)
        # PostgreSQL alone makes no hypertables.
        leave_out = ["-test.skip", "^TestTsbs"] if is_reference else []
        data = os.path.join(servers.ROOT, "testdata", "tsbs")
        return [*command, *leave_out], folder, {**more, "TSBS_DATA": data}


class Tls(Shell):
    """psql over TLS."""

    def command(self, _is_reference):
        return [sys.executable, "-B", "-m", "unittest", "discover", "-s", os.path.join(TESTS, "tls"), "-v"], TESTS, {}


class Copy(Shell):
    """psql, and COPY beyond a batch."""

    def command(self, _is_reference):
        return [sys.executable, "-B", "-m", "unittest", "discover", "-s", os.path.join(TESTS, "copy"), "-v"], TESTS, {}


CLIENTS = {"shell": Shell, "python": Python, "java": Java, "node": shared.Node, "go": Go, "tls": Tls, "copy": Copy}
# Their tests need a server of another kind.
SPECIAL = ["tls", "copy"]
# A batch of so few rows is passed by a short COPY.
FEW_ROWS = ["--batch-rows-max", "500"]


class Nilometer(servers.Nilometer):
    """Our program with a port for clients of PostgreSQL."""

    def __init__(self, path, flags):
        self.address = None
        super().__init__(path, ["--pg-bind", "127.0.0.1:0", *flags])

    def greeted(self):
        lines = [line for line in self.text("stdout").split("\n") if line.startswith(GREETING)]
        if not lines:
            return False
        self.address = lines[0][len(GREETING) :].rsplit(":", 1)
        return super().greeted()

    def environment(self, has_auth):
        who = {"PGUSER": shared.USER, "PGPASSWORD": shared.PASSWORD} if has_auth else {"PGUSER": "anybody", "PGPASSWORD": ""}
        host, port = self.address
        # With a certificate of its own the server has no address over HTTP that these tests could ask.
        url = {"NILOMETER_URL": self.url} if self.url else {}
        return {**os.environ, "PGHOST": host, "PGPORT": port, "PGDATABASE": "postgres", **url, **who}


class TlsNilometer(Nilometer):
    """The same with a certificate for localhost that was made for it."""

    def __init__(self, path, folder):
        self.certificate, key = shared.certificate(folder)
        super().__init__(path, ["--tls-cert", self.certificate, "--tls-key", key])

    def answers(self):
        # Python knows nothing of its certificate.
        return True

    def greeted(self):
        lines = [line for line in self.text("stdout").split("\n") if line.startswith(GREETING)]
        if lines:
            self.address = lines[0][len(GREETING) :].rsplit(":", 1)
        return bool(lines)

    def environment(self, has_auth):
        return {**super().environment(has_auth), "CERTIFICATE": self.certificate}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the program under test; without it, the release build")
    parser.add_argument("--only", default=",".join(CLIENTS))
    parser.add_argument("--reference", action="store_true", help="test the tests: run them against PostgreSQL")
    arguments = parser.parse_args()
    passed = 0
    clients, failed = shared.installed_ones(arguments.only, CLIENTS, os.path.join(servers.target_dir(), "clients-postgresql"))

    def run(environment, words, special=None):
        nonlocal passed, failed
        for name, client in clients.items():
            if special != (name if name in SPECIAL else None) and not (arguments.reference and name == "copy"):
                continue
            command, folder, more = client.command(arguments.reference)
            good, bad, left_out, output = shared.tried("shell" if name in SPECIAL else name, command, folder, {**environment, **more})
            # Only the reference leaves a test out.
            bad = max(bad, 0 if arguments.reference else left_out)
            print("%s, %s: %d passed, %d failed" % (name, words, good, bad))
            if bad:
                print(output[-20000:])
            sys.stdout.flush()
            passed, failed = passed + good, failed + bad

    if arguments.reference:
        run({**os.environ, "REFERENCE": "1"}, "PostgreSQL")
    else:
        for has_auth in [False, True]:
            with Nilometer(servers.program(arguments.program), ["--auth"] if has_auth else []) as server:
                if has_auth:
                    shared.first_administrator(server.url)
                run(server.environment(has_auth), "authentication %s" % ("on" if has_auth else "off"))
        if "copy" in clients:
            with Nilometer(servers.program(arguments.program), FEW_ROWS) as server:
                run(server.environment(False), "batches of 500 rows", special="copy")
        if "tls" in clients:
            with tempfile.TemporaryDirectory() as folder, TlsNilometer(servers.program(arguments.program), folder) as server:
                run(server.environment(False), "TLS", special="tls")
    print("test result: %s. %d passed; %d failed;" % ("FAILED" if failed else "ok", passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
