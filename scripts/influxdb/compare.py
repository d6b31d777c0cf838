#!/usr/bin/env python3
"""The differential test: our program and InfluxDB 1.6.7 get the same writes and statements, and the same must come back.

Starts both, runs scripts/compare-influxdb.py with seeds that never change, and fails on any difference that it does not
explain. Fetches the reference if it is not here (reference.sh); without it the test fails, it is never skipped.

    python3 scripts/influxdb/compare.py [--program FILE] [--random N] [--seeds 1,2] [--keep FILE]
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import servers  # noqa: E402

COMPARE = os.path.join(servers.ROOT, "scripts", "compare-influxdb.py")
SUMMARY = re.compile(r"^(\d+) statements compared, (\d+) explained, (\d+) different", re.MULTILINE)
# A seed compares so many statements beside the random ones at least; fewer mean that something was not read.
WRITTEN_MIN = 250
# What is explained is left out of the comparison in effect. Of the statements, random ones above all, so few may be.
EXPLAINED_MAX = 0.10


def self_test():
    """A comparison that finds nothing proves nothing: planted differences must be found."""
    spec = importlib.util.spec_from_file_location("compare_influxdb", COMPARE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answer = (200, '{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","a"],"values":[[1,0.1],[2,"x"]]}]}]}')
    planted = {
        "a status": (400, answer[1]),
        "a float in its tenth digit": (200, answer[1].replace("0.1", "0.1000000001")),
        "an integer": (200, answer[1].replace("[1,", "[3,")),
        "a text": (200, answer[1].replace('"x"', '"y"')),
        "an order": (200, answer[1].replace('[[1,0.1],[2,"x"]]', '[[2,"x"],[1,0.1]]')),
        "a missing row": (200, answer[1].replace(',[2,"x"]', "")),
        "a member": (200, answer[1].replace('"name":"m",', "")),
        "what is no JSON": (200, "oops"),
    }
    missed = blind(module, answer[1])
    missed += [what for what, other in planted.items() if module.same_answers(answer, other)]
    tiny = (200, answer[1].replace("0.1", "0.10000000000000002"))
    if missed or not module.same_answers(answer, answer) or not module.same_answers(answer, tiny):
        sys.exit("compare-influxdb.py does not tell answers apart: %s" % missed)
    return len(planted)


def blind(module, text):
    """The explanations that explain what they are not about: each hears of an answer that lacks a row."""
    statements = {
        "select distinct(a) from m": "",
        "select abs(a) from m": "",
        "select holt_winters(mean(a), 1, 0) from m group by time(1m)": "",
        "select integral(a) from m": "",
        "select moving_average(a, 2) from m": "",
        "select difference(mean(a)) from m group by time(1m)": "",
        "show series where time > 0 limit 2": "",
        "show series cardinality from m": "cardinality estimation",
        "show retention policies": "futureWriteLimit",
        "show tag values from cpu with key = host": '"d"',
        "select count(usage) from cpu group by time(30m)": '"partial":true',
        "select a from m; select b from m": "not executed",
        "delete from m where a = 1": "shard 1: fields not supported",
        "create subscription s": "not supported",
        "drop subscription s on d": "not found",
        "drop retention policy p on d": "default schema",
        "select a from m where a = 'x'": "type error: 1.5: incompatible",
    }
    whole = (200, text)
    missing = (200, text.replace(',[2,"x"]', ""))
    failed = (200, '{"results":[{"statement_id":0,"error":"it broke"}]}')
    found = []
    for statement, words in statements.items():
        # The words that an explanation looks for are there, and beside them a row is missing.
        mark = '{"results":[{"statement_id":0,"messages":[%s]},' % module.json.dumps(words)
        ours, theirs = (status_text[1].replace('{"results":[', mark, 1) for status_text in (missing, whole))
        if module.explanation(statement, (200, ours), (200, theirs), lambda: (whole, 0, 0)):
            found.append("explained: " + statement)
    for statement in ["explain select a from m", "show queries", "show stats"]:
        if module.explanation(statement, failed, whole):
            found.append("explained: an error of " + statement)
    # Distinct values in another order, and integers without their sign, are explained.
    turned = (200, text.replace('[[1,0.1],[2,"x"]]', '[[2,"x"],[1,0.1]]'))
    minus = (200, text.replace("[2,", "[-2,"))
    if not module.explanation("select distinct(a) from m", turned, whole) or not module.explanation("select abs(a) from m", whole, minus):
        found.append("not explained")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the program under test; without it, the release build")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--random", type=int, default=1500, help="random statements of each kind and seed")
    parser.add_argument("--keep", help="a file for the statements that differ")
    arguments = parser.parse_args()

    print("%d planted differences are found" % self_test())
    binaries = subprocess.check_output(
        [os.path.join(servers.ROOT, "scripts", "influxdb", "reference.sh")], text=True
    ).strip()
    passed = failed = statements = explained = different = 0
    for seed in arguments.seeds.split(","):
        # What one seed leaves (here a database for continuous queries) is no difference of the next.
        with servers.InfluxDb(os.path.join(binaries, "influxd")) as theirs, servers.Nilometer(
            servers.program(arguments.program)
        ) as ours, tempfile.TemporaryDirectory() as scratch:
            findings = os.path.join(scratch, seed)
            run = subprocess.run(
                [sys.executable, COMPARE, "--ours", ours.url, "--theirs", theirs.url, "--seed", seed]
                + ["--random", str(arguments.random), "--show", "20", "--width", "4000", "--findings", findings],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            print("seed %s\n%s" % (seed, run.stdout), end="", flush=True)
            summary = SUMMARY.search(run.stdout)
            counts = [int(count) for count in summary.groups()] if summary else [0, 0, 0]
            complaint = None
            if not summary:
                complaint = "it did not come to its end"
            elif counts[0] < 2 * arguments.random + WRITTEN_MIN:
                complaint = "only %d statements were compared" % counts[0]
            elif counts[2] or run.returncode:
                complaint = "%d differences are not explained" % counts[2]
            elif counts[1] > EXPLAINED_MAX * counts[0]:
                complaint = "%d of %d differences are explained away" % (counts[1], counts[0])
            if complaint:
                print("seed %s FAILED: %s" % (seed, complaint))
                failed += 1
            else:
                passed += 1
            statements, explained, different = statements + counts[0], explained + counts[1], different + counts[2]
            if arguments.keep and os.path.exists(findings):
                with open(findings) as found, open(arguments.keep, "a") as file:
                    file.write(found.read())
    print("influxdb: %d statements compared, %d differences explained, %d unexplained" % (statements, explained, different))
    print("test result: %s. %d passed; %d failed;" % ("FAILED" if failed else "ok", passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
