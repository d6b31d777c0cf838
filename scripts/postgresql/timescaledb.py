#!/usr/bin/env python3
"""The statements of testdata/timescaledb/answers.jsonl.gz to our program: it answers what TimescaleDB answered.

Does: send them case by case, each case to a database of its own, and compare names and types of columns, values (numbers to 1e-12, else
as texts) and whether a statement is refused. What differs and is meant to is named in testdata/timescaledb/differences.json, with the
reason; a statement that is named there and does not differ any more fails too. A reason with a pattern (`where`) is about the rows of every
statement that it matches. Does not: need TimescaleDB, except with --ask, which sends
statements from a seed to the one that a connection string names and writes its answers down.

    python3 scripts/postgresql/timescaledb.py [--program FILE] [--case NAME] [--show N] [--ask CONNECTION [--seed N]]
"""

import argparse
import gzip
import json
import math
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import clients  # noqa: E402
import timescaledb_statements  # noqa: E402

servers = clients.servers
DATA = os.path.join(servers.ROOT, "testdata", "timescaledb")
COUNTS = {"buckets": 24, "tables": 36, "aggregates": 24, "policies": 8}
# How far two numbers may be apart, as a share of them: the order of a sum is nobody's.
SHARE = 1e-12
NUMBERS = {20, 21, 23, 700, 701, 1700}
# Types of columns that are others here, ours first; their text is the same. docs/guide/postgresql.md says why.
TYPES = {(20, 23), (20, 21), (20, 1700), (1700, 20), (1016, 1007), (1007, 1016), (25, 19), (1043, 25), (25, 1043), (25, 2205), (25, 1186), (701, 1700), (25, 2278)}


def ask(connection, statement):
    """Columns and rows, the status, or the error of a statement."""
    from psycopg.pq import ExecStatus

    result = connection.pgconn.exec_(statement.encode())
    if result.status == ExecStatus.TUPLES_OK:
        text = lambda value: None if value is None else value.decode()
        return {
            "columns": [result.fname(at).decode() for at in range(result.nfields)],
            "types": [result.ftype(at) for at in range(result.nfields)],
            "rows": [[text(result.get_value(row, at)) for at in range(result.nfields)] for row in range(result.ntuples)],
        }
    if result.status == ExecStatus.COMMAND_OK:
        return {"done": result.command_status.decode()}
    if connection.pgconn.status != 0:
        raise RuntimeError("the connection is lost at: %s" % statement)
    return {"error": (result.error_field(67) or b"").decode(), "text": (result.error_field(77) or b"").decode()}


def is_same_number(one, other):
    one, other = float(one), float(other)
    return (math.isnan(one) and math.isnan(other)) or one == other or abs(one - other) <= SHARE * max(abs(one), abs(other))


def is_same_value(one, other, of):
    # Nothing: the empty text, or NULL.
    if of == 2278:
        return not one and not other
    if one == other or one is None or other is None:
        return one == other
    if of in NUMBERS:
        return is_same_number(one, other)
    if of == 1022:
        ours, theirs = one.strip("{}").split(","), other.strip("{}").split(",")
        return len(ours) == len(theirs) and all(a == b or ("NULL" not in (a, b) and is_same_number(a, b)) for a, b in zip(ours, theirs))
    return False


def difference(ours, theirs):
    """In which way our answer is another one; None = it is not."""
    if "error" in ours or "error" in theirs:
        if "error" not in theirs:
            return "only we refuse: %s %s" % (ours["error"], ours["text"])
        return None if "error" in ours else "only TimescaleDB refuses: %s %s" % (theirs["error"], theirs["text"])
    if "done" in ours or "done" in theirs:
        return None if ours == theirs else "status: %s for %s" % (ours.get("done"), theirs.get("done"))
    if ours["columns"] != theirs["columns"]:
        return "names of columns: %s for %s" % (ours["columns"], theirs["columns"])
    for our, their in zip(ours["types"], theirs["types"]):
        if our != their and (our, their) not in TYPES:
            return "types of columns: %s for %s" % (ours["types"], theirs["types"])
    if len(ours["rows"]) != len(theirs["rows"]):
        return "%d rows for %d" % (len(ours["rows"]), len(theirs["rows"]))
    for our, their in zip(ours["rows"], theirs["rows"]):
        for one, other, of, name in zip(our, their, theirs["types"], theirs["columns"]):
            # Numbers of jobs are each server's own; -1 says that there is one already.
            if name == "job" and None not in (one, other) and "-1" not in (one, other):
                continue
            if not is_same_value(one, other, of):
                return "rows: %s for %s" % (our, their)
    return None


class Session:
    """A connection to a database that is made for a case, and dropped when it is over."""

    def __init__(self, where, case, extension):
        import psycopg

        self.psycopg, self.where, self.name = psycopg, where, "case_" + case.replace("-", "_")
        self.extension = extension

    def __enter__(self):
        self.over = self.psycopg.connect(self.where, autocommit=True)
        self.over.execute("DROP DATABASE IF EXISTS %s" % self.name)
        self.over.execute("CREATE DATABASE %s" % self.name)
        self.own = self.psycopg.connect(self.where, dbname=self.name, autocommit=True)
        self.own.add_notice_handler(lambda _: None)
        if self.extension:
            self.own.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")
        self.own.execute("SET statement_timeout = '60s'")
        self.own.execute("SET TIME ZONE 'UTC'")
        return self.own

    def __exit__(self, *_):
        self.own.close()
        self.over.execute("DROP DATABASE IF EXISTS %s" % self.name)
        self.over.close()


def is_chosen(case, named):
    """Whether a case is the named one, or of the named kind."""
    return not named or case == named or (not named[-1].isdigit() and case.startswith(named))


def write_answers(where, seed, path, named):
    """Asks TimescaleDB, and writes down what it says, in an order and a form that the same answers always have. What is not asked stays."""
    lines = []
    known = read_cases(path) if named else {}
    for case, statements in timescaledb_statements.cases(seed, COUNTS):
        if not is_chosen(case, named):
            lines.extend({"case": case, "q": statement, "answer": answer} for statement, answer in known.get(case, []))
            continue
        with Session(where, case, True) as connection:
            for statement in statements:
                lines.append({"case": case, "q": statement, "answer": ask(connection, statement)})
        print("%s: %d statements" % (case, len(statements)))
        sys.stdout.flush()
    text = "".join(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n" for line in lines)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, filename="", mtime=0) as packed:
        packed.write(text.encode())
    print("%d statements in %s" % (len(lines), path))


def read_cases(path):
    cases = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            line = json.loads(line)
            cases.setdefault(line["case"], []).append((line["q"], line["answer"]))
    return cases


def compare(where, cases, listed):
    """What differs, as (case:number, statement, way, reason), and how many statements agree."""
    found, agreed = [], 0
    reasons = {key: name for name, one in listed.items() for key in one.get("statements", [])}
    patterns = [(re.compile(one["where"]), name) for name, one in listed.items() if "where" in one]
    for case, statements in cases.items():
        with Session(where, case, False) as connection:
            for nth, (statement, theirs) in enumerate(statements):
                key = "%s:%d" % (case, nth)
                ours = ask(connection, statement)
                way = difference(ours, theirs)
                matching = [name for pattern, name in patterns if pattern.search(statement) and "rows" in ours and "rows" in theirs]
                reason = reasons.get(key) or next(iter(matching), None)
                if way is None and key not in reasons:
                    agreed += 1
                elif way is None:
                    found.append((key, statement, "agrees, and differences.json says that it does not", None))
                else:
                    found.append((key, statement, way, reason))
    return found, agreed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the program under test; without it, the release build")
    parser.add_argument("--case", help="this case alone, or those whose names begin so")
    parser.add_argument("--show", type=int, default=40, help="how many differences are shown")
    parser.add_argument("--ask", metavar="CONNECTION", help="write down what TimescaleDB answers there")
    parser.add_argument("--seed", type=int, default=28)
    arguments = parser.parse_args()
    library = clients.CLIENTS["python"](os.path.join(servers.target_dir(), "clients-postgresql"))
    try:
        library.install()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print("psycopg cannot be installed: %s\ntest result: FAILED. 0 passed; 1 failed;" % error)
        sys.exit(1)
    # From here on with the Python that has psycopg.
    program = library.command(False)[0][0]
    if "DIFFERENTIAL" not in os.environ:
        os.execve(program, [program, *sys.argv], {**os.environ, "DIFFERENTIAL": "1"})
    answers = os.path.join(DATA, "answers.jsonl.gz")
    if arguments.ask:
        write_answers(arguments.ask, arguments.seed, answers, arguments.case)
        return
    begun = time.monotonic()
    cases = read_cases(answers)
    with open(os.path.join(DATA, "differences.json")) as file:
        listed = json.load(file)
    cases = {name: one for name, one in cases.items() if is_chosen(name, arguments.case)}
    with clients.Nilometer(servers.program(arguments.program), []) as server:
        host, port = server.address
        found, agreed = compare("host=%s port=%s user=postgres dbname=postgres" % (host, port), cases, listed)
    wrong = [one for one in found if one[3] is None]
    for key, statement, way, _ in wrong[: arguments.show]:
        print("%s %s\n    %s" % (key, statement[:700], way[:700]))
    print("%d answers agree, %d differ as differences.json says, %d differ otherwise, %.0f s" % (agreed, len(found) - len(wrong), len(wrong), time.monotonic() - begun))
    print("test result: %s. %d passed; %d failed;" % ("FAILED" if wrong or not agreed else "ok", agreed, len(wrong)))
    sys.exit(1 if wrong or not agreed else 0)


if __name__ == "__main__":
    main()
