#!/usr/bin/env python3
"""Speed of the PostgreSQL surface beside PostgreSQL on the same machine: COPY, inserts, point queries, idle connections, partitions.

Does: start both programs with their defaults (both durable) in scratch folders, ask them in turn with psql and pgbench, and print
medians and rates as one table. Does not: belong to the tests; times mean something on a quiet machine only.

    python3 scripts/postgresql/figures.py [--program FILE] [--rows N] [--seconds N] [--rounds N] [--partitions N] [--only NAME,...]
"""

import argparse
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import clients  # noqa: E402
import differential  # noqa: E402

servers = clients.servers
METRICS = ["usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait", "usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice"]
IDLE = 1000


class Postgresql(differential.Reference):
    """PostgreSQL as it is installed, durable."""

    name = "PostgreSQL"

    def __init__(self):
        super().__init__("-c max_connections=%d" % (IDLE + 100))

    def __enter__(self):
        super().__enter__()
        self.where = {"PGHOST": self.folder, "PGUSER": "postgres", "PGDATABASE": "postgres", "PGPORT": "5432"}
        return self

    def processes(self):
        with open(os.path.join(self.data, "postmaster.pid")) as file:
            parent = file.readline().strip()
        with open("/proc/%s/task/%s/children" % (parent, parent)) as file:
            return [parent, *file.read().split()]

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.path.join(self.folder, ".s.PGSQL.5432"))
        return connection


class Nilometer:
    """Our program with its defaults, over TCP on loopback."""

    name = "Nilometer"

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.port = servers.free_port()
        self.server = servers.Nilometer(self.path, ["--pg-bind", "127.0.0.1:%d" % self.port])
        self.where = {"PGHOST": "127.0.0.1", "PGUSER": "postgres", "PGDATABASE": "postgres", "PGPORT": str(self.port)}
        return self

    def __exit__(self, *_):
        self.server.stop()

    def processes(self):
        return [str(self.server.process.pid)]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))


def ask(server, *statements):
    """What psql answers to statements, each in a message of its own."""
    command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
    for statement in statements:
        command += ["-c", statement]
    done = subprocess.run(command, env={**os.environ, **server.where}, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (server.name, done.stderr))
    return done.stdout


def pgbench(server, script, clients, seconds):
    """Median time of a transaction in ms, and transactions per second, of a script that each client repeats."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "script.sql")
        with open(path, "w") as file:
            file.write(script)
        command = ["pgbench", "-n", "-f", path, "-c", str(clients), "-j", "1", "-T", str(seconds), "-M", "prepared", "-l", "--log-prefix", os.path.join(folder, "log")]
        done = subprocess.run(command, env={**os.environ, **server.where}, capture_output=True, text=True, timeout=seconds + 120, cwd=folder)
        if done.returncode != 0 or "failed transactions: 0 " not in done.stdout:
            raise RuntimeError("%s: %s%s" % (server.name, done.stdout, done.stderr))
        times = []
        for name in os.listdir(folder):
            if name.startswith("log"):
                with open(os.path.join(folder, name)) as file:
                    times += [int(line.split()[2]) for line in file]
    return statistics.median(times) / 1000, len(times) / seconds


def resident(server):
    """Memory that belongs to a server's processes, in MB; pages that several of them have are shared out."""
    total = 0
    for process in server.processes():
        with open("/proc/%s/smaps_rollup" % process) as file:
            total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total / 1024


class Figures:
    """What is measured; each gives (what, unit, value by server)."""

    def __init__(self, both, options):
        self.both = both
        self.options = options

    def in_turn(self, measure):
        """By server, medians of what several rounds in turn measured."""
        rounds = [[measure(server) for server in self.both] for _ in range(self.options.rounds)]
        return [tuple(statistics.median(values) for values in zip(*(one[at] for one in rounds))) for at in range(len(self.both))]

    def copy(self):
        rng = random.Random(7)
        hosts = [[rng.randrange(100) for _ in METRICS] for _ in range(100)]
        with tempfile.NamedTemporaryFile("w", suffix=".copy") as file:
            written = 0
            while written < self.options.rows:
                at = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(1451606400 + written // 100 * 10))
                for host, values in enumerate(hosts):
                    for index, value in enumerate(values):
                        values[index] = min(100, max(0, value + rng.choice((-1, 0, 1))))
                    file.write("%s\t%d\t%s\n" % (at, host, "\t".join(map(str, values))))
                written += len(hosts)
            file.flush()

            def measure(server):
                ask(server, "DROP TABLE IF EXISTS cpu")
                ask(server, "CREATE TABLE cpu (time timestamptz NOT NULL, tags_id integer, %s)" % ", ".join("%s double precision" % name for name in METRICS))
                start = time.monotonic()
                ask(server, "\\copy cpu FROM '%s'" % file.name)
                took = time.monotonic() - start
                count = int(ask(server, "SELECT count(*) FROM cpu"))
                if count != written:
                    raise RuntimeError("%s has %d rows of %d" % (server.name, count, written))
                return (written / took,)

            yield "COPY of %d rows (text, 12 columns, one connection)" % written, "rows/s", [rate for (rate,) in self.in_turn(measure)]

    def inserts(self):
        for server in self.both:
            ask(server, "CREATE TABLE kv (id bigserial PRIMARY KEY, v double precision, s text)", "CREATE TABLE m (time timestamptz NOT NULL, device integer, v double precision)")
        into_relation = "INSERT INTO kv (v, s) VALUES (0.5, 'abc');\n"
        over_time = "\\set d random(1, 100)\nINSERT INTO m VALUES (now(), :d, 0.5);\n"
        for what, script in (("table with a key", into_relation), ("table over time", over_time)):
            for clients in (1, 32):
                found = self.in_turn(lambda server, s=script, c=clients: pgbench(server, s, c, self.options.seconds))
                yield "single-row insert, %s, %d connections: median" % (what, clients), "ms", [median for median, _ in found]
                yield "the same: rate", "/s", [rate for _, rate in found]

    def points(self):
        for server in self.both:
            ask(server, "CREATE TABLE p (id bigint PRIMARY KEY, v double precision, s text)", "INSERT INTO p SELECT i, i / 2.0, 'row ' || i FROM generate_series(1, 100000) AS g(i)")
        script = "\\set id random(1, 100000)\nSELECT v, s FROM p WHERE id = :id;\n"
        for clients in (1, 8):
            found = self.in_turn(lambda server, c=clients: pgbench(server, script, c, self.options.seconds))
            yield "prepared point query by key, %d connections: median" % clients, "ms", [median for median, _ in found]
            yield "the same: rate", "/s", [rate for _, rate in found]
        found = self.in_turn(lambda server: pgbench(server, "SELECT 1;\n", 1, self.options.seconds))
        yield "SELECT 1, one connection: median", "ms", [median for median, _ in found]

    def idle(self):
        def measure(server):
            before = resident(server)
            body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
            connections = [server.connect() for _ in range(IDLE)]
            try:
                for connection in connections:
                    connection.sendall(struct.pack("!i", len(body) + 4) + body)
                for connection in connections:
                    answer = b""
                    while not answer.endswith(b"Z\0\0\0\x05I"):
                        piece = connection.recv(4096)
                        if not piece:
                            raise RuntimeError("%s closed an idle connection: %r" % (server.name, answer[:200]))
                        answer += piece
                return resident(server) - before
            finally:
                for connection in connections:
                    connection.close()

        yield "%d idle connections: memory" % IDLE, "MB", [measure(server) for server in self.both]

    def partitions(self):
        """Of ours alone: a table whose partitions are an hour, few and many of them, asked for its newest minutes."""
        server = self.both[0]
        for count in (10, self.options.partitions):
            table = "parts_%d" % count
            ask(
                server,
                "CREATE TABLE %s (time timestamptz NOT NULL, v double precision)" % table,
                "SELECT create_hypertable('%s', 'time', chunk_time_interval => INTERVAL '1 hour')" % table,
                "INSERT INTO %s SELECT t, 0.5 FROM generate_series('2016-01-01'::timestamptz, '2016-01-01'::timestamptz + INTERVAL '%d minutes', INTERVAL '20 minutes') AS g(t)" % (table, count * 60 - 20),
            )
            script = "SELECT time_bucket('1 minute', time) AS b, max(v) FROM %s WHERE time >= '2016-01-01 02:00+00' AND time < '2016-01-01 03:00+00' GROUP BY b ORDER BY b;\n" % table
            median, _ = pgbench(server, script, 1, self.options.seconds)
            plan = ask(server, "EXPLAIN ANALYZE SELECT time_bucket('2 minutes', time) AS b, max(v), min(v) FROM %s WHERE time >= '2016-01-01 02:00+00' AND time < '2016-01-01 03:00+00' GROUP BY b ORDER BY b" % table)
            planning = [line for line in plan.split("\n") if "lanning" in line]
            yield "time_bucket of an hour of %d partitions: median" % count, "ms", [median]
            if planning:
                yield "the same, another shape: %s" % planning[0].strip(), "", []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--only", default="copy,inserts,points,idle,partitions")
    options = parser.parse_args()
    with Nilometer(servers.program(options.program)) as ours, Postgresql() as theirs:
        figures = Figures([ours, theirs], options)
        print("| | %s | %s | times |\n|---|---|---|---|" % (ours.name, theirs.name), flush=True)
        for name in options.only.split(","):
            for what, unit, values in getattr(figures, name)():
                cells = ["%s%s" % (("%.3f" if value < 10 else "%.1f" if value < 1000 else "%.0f") % value, " " + unit if unit else "") for value in values]
                cells += [""] * (2 - len(cells))
                times = "%.2f" % (values[0] / values[1]) if len(values) == 2 and values[1] else ""
                print("| %s | %s | %s |" % (what, " | ".join(cells), times), flush=True)


if __name__ == "__main__":
    main()
