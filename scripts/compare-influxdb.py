#!/usr/bin/env python3
"""Compares the answers of two servers that speak InfluxDB 1's HTTP API: ours and a reference.

Both get the same lines and the same statements, hand-written and seeded random ones. Their JSON is compared: floats to
1e-12 of their size, everything else exactly, order included. A difference is either explained (EXPLAINED below, with its
reason) or printed, and then the exit code is 1.

    python3 scripts/compare-influxdb.py --ours http://127.0.0.1:8086 --theirs http://127.0.0.1:18086 --random 2000

The reference is meant to be InfluxDB 1.6.7 as Debian has it. Databases named "compare..." are dropped and made on both.
Standard library only.
"""

import argparse
import json
import os
import random
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

# The statements lie beside this file, whoever loads it and from where.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from influxdb_statements import (  # noqa: E402
    CHANGES,
    CLOCKS,
    SELECTS,
    SHOW,
    T0,
    clocks_set,
    lines,
    random_clocks,
    random_integral,
    random_nested,
    random_select,
    random_several,
    random_show,
)

DB = "compare"


# --- talking -------------------------------------------------------------------------------------------------------


def post(url, path, params, body=b"", method="POST"):
    target = url + path + "?" + urllib.parse.urlencode(params)
    request = urllib.request.Request(target, data=body if method == "POST" else None, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask(url, statement, extra=None, method="POST"):
    params = {"db": DB, "q": statement}
    params.update(extra or {})
    return post(url, "/query", params, method=method)


# --- comparing -----------------------------------------------------------------------------------------------------


class Number(str):
    """A number as it was written."""


def documents(text):
    """The JSON documents of a body; those of a chunked answer stand one after the other."""
    decoder = json.JSONDecoder(
        parse_int=Number, parse_float=Number, object_pairs_hook=lambda pairs: ("object", pairs)
    )
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def same_number(one, other, size=0):
    if one == other:
        return True
    x, y = float(one), float(other)
    is_whole = not any(char in one + other for char in ".eE")
    if is_whole and abs(x) < 2**53 and abs(y) < 2**53:
        return False
    return abs(x - y) <= 1e-12 * max(abs(x), abs(y), size)


def same(one, other, size=0):
    if isinstance(one, Number) or isinstance(other, Number):
        return isinstance(one, Number) and isinstance(other, Number) and same_number(one, other, size)
    if isinstance(one, (list, tuple)):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(same(x, y, size) for x, y in zip(one, other))
        )
    return type(one) is type(other) and one == other


def same_answers(ours, theirs):
    if ours[0] != theirs[0]:
        return False
    if ours[1] == theirs[1]:
        return True
    try:
        return same(documents(ours[1]), documents(theirs[1]))
    except ValueError:
        return False


def gathered(answer):
    """An answer with the rows of a series together and in the order of their times, and series in the order of their tags.

    1.6.7 shows the last bucket of an integral of each group after all others, in the order of a hash table.
    """
    status, text = answer
    if status != 200:
        return answer
    document = json.loads(text)
    for result in document.get("results", []):
        if "series" not in result:
            continue
        together = {}
        for series in result["series"]:
            key = json.dumps([series["name"], series.get("tags"), series["columns"]])
            together.setdefault(key, {**series, "values": []})["values"] += series["values"]
        for series in together.values():
            series["values"].sort(key=str)
        result["series"] = [together[key] for key in sorted(together)]
    return status, json.dumps(document)


# --- what differs, and why -----------------------------------------------------------------------------------------


def same_beside_residue(ours, theirs):
    """What a sum leaves of numbers that cancel each other is compared with these, which are around 1 and more."""
    return ours[0] == theirs[0] and same(documents(ours[1]), documents(theirs[1]), 1)


# (what the statement looks like, what the two answers look like together, why, and what must be the same nevertheless).
# Where 1.6.7 and 1.12 differ, 1.12 wins.
def same_without_zero(ours, theirs):
    """The same but for a row of 0 before the only one."""
    if ours[0] != theirs[0]:
        return False
    documents_of = [json.loads(answer[1]) for answer in (ours, theirs)]
    one, other = ([row for result in document["results"] for series in result.get("series", []) for row in series["values"]] for document in documents_of)
    kept = [row for row in other if row[1] != 0]
    return len(kept) < len(other) and same_beside_residue((200, json.dumps(one)), (200, json.dumps(kept)))


EXPLAINED = [
    (
        r"(?i)^select integral\((?!.*group by time).* order by time desc$",
        r"",
        "backwards and without buckets 1.6.7 sometimes shows a row of 0 before the integral",
        same_without_zero,
    ),
    (
        r"(?i)^select integral\(",
        r"",
        "parts of an integral that cancel each other keep what rounding leaves",
        same_beside_residue,
    ),
    (
        r"(?i)^show series cardinality (from|where|on)",
        r"cardinality estimation",
        "1.12 estimates them by measurement, and its column says so",
    ),
    (
        r"(?i)^show retention policies",
        r"futureWriteLimit",
        "1.12 shows the limits of writes in two more columns",
    ),
    (r"(?i)^show queries", r"", "times and numbers of statements differ; 1.12 has a column `user`"),
    (r"(?i)^show (diagnostics|stats|shards|shard groups)", r"", "each server's own"),
    (
        r"(?i)^explain",
        r"",
        "the plan is the server's own",
    ),
    (
        r"(?i)^create subscription",
        r"not supported",
        "not supported, and said so",
    ),
    (
        r"(?i)moving_average\(",
        r"",
        "a moving sum keeps what rounding leaves of numbers that cancel each other",
        same_beside_residue,
    ),
    (
        r"(?i)^select difference\(mean\(",
        r"",
        "means that hardly differ keep what rounding leaves of sums in another order",
        same_beside_residue,
    ),
    (
        r";",
        r"not executed",
        "1.6.7 puts the error of a failed statement and what was not executed after it into one result; since 1.7 each "
        "statement has its own",
    ),
    (
        r"(?i)^drop series|^delete",
        r"shard \d+: fields not supported",
        "1.6.7 names the shard; there is none here, and the rest of the text is the same",
    ),
    (
        r"(?i)^drop subscription s ?",
        r"not found",
        "the statement that makes it is not supported",
    ),
    (
        r"(?i)^show tag values from cpu with key = host$",
        r'"d"',
        "1.6.7 goes on listing values of tags whose series were deleted",
    ),
    (
        r"(?i)^show series.*time.*(limit|offset)",
        r"",
        "with a condition on time 1.6.7 counts LIMIT and OFFSET anew for parts of the list",
    ),
    (
        r"(?i)^select count\(usage\) from cpu group by time\(30m\)$",
        r'"partial":true',
        "1.6.7 calls a series of more than 10,000 rows partial although it is whole",
    ),
    (
        r"(?i)^select abs\(",
        r"",
        "1.6.7 leaves negative integers as they are; 1.12 does not",
    ),
    (
        r"",
        r"type error: .*\d\.\d+: incompatible",
        "1.6.7 prints numbers with three decimals",
    ),
    (
        r"(?i)^select distinct\(",
        r"",
        "the order of distinct values is that of a hash table there",
    ),
    (
        r"(?i)^drop retention policy",
        r"default schema",
        "the default policy cannot be dropped: make another one the default first",
    ),
]


def explanation(statement, ours, theirs):
    both = ours[1] + theirs[1]
    for pattern, answers, why, *beside in EXPLAINED:
        if re.search(pattern, statement) and re.search(answers, both) and all(it(ours, theirs) for it in beside):
            return why
    return None


class Changing:
    """A database whose policies, default policy and rows change between the statements that are compared. All rows have times
    of their own: in which order 1.6.7 gives those of one time, nothing says."""

    NAME = "compare4"

    def __init__(self, tally, rng):
        self.tally, self.rng, self.at = tally, rng, T0
        self.urls = (tally.arguments.ours, tally.arguments.theirs)
        for statement in ('drop database "%s"' % self.NAME, 'create database "%s"' % self.NAME):
            for url in self.urls:
                ask(url, statement)
        self.policies = ["autogen"]

    def say(self, statement):
        extra = {"db": self.NAME}
        if self.rng.random() < 0.2:
            extra["rp"] = self.rng.choice(self.policies)
        self.tally.compare(statement, extra)

    def write(self):
        rng, lines = self.rng, []
        for _ in range(rng.randint(1, 4)):
            self.at += rng.randint(1, 9)
            # Here a tag that a measurement has in another policy only is no tag of this one, so all have the same.
            tags = rng.choice([",host=a", ",host=b", ",host=c"])
            fields = rng.choice(["v=%d" % rng.randint(0, 9), "v=%d" % rng.randint(0, 9), "w=2i,v=7"])
            lines.append("%s%s %s %d000000000" % (rng.choice("mn"), tags, fields, self.at))
        policy = rng.choice(self.policies + [""])
        params = {"db": self.NAME}
        if policy:
            params["rp"] = policy
        for url in self.urls:
            status, body = post(url, "/write", params, "\n".join(lines).encode())
            if status != 204:
                sys.exit("%s refused lines: %s %s" % (url, status, body))

    def step(self):
        rng = self.rng
        policy = rng.choice(self.policies + ["nope"] if rng.random() < 0.1 else self.policies)
        prefix = rng.choice(["", "", policy + ".", "%s.%s." % (self.NAME, policy), self.NAME + ".."])
        source = prefix + rng.choice(["m", "n", "x", "/m|n/", "/./", "y"])
        kind = rng.random()
        if kind < 0.3:
            self.write()
        elif kind < 0.36 and len(self.policies) < 4:
            name = "p%d" % len(self.policies)
            self.policies.append(name)
            self.say("create retention policy %s on %s duration inf replication 1%s" % (name, self.NAME, rng.choice(["", " default"])))
        elif kind < 0.42:
            self.say("alter retention policy %s on %s default" % (policy, self.NAME))
        elif kind < 0.56:
            # Of a policy that is not there 1.6.7 says nothing as long as nothing is written.
            target = rng.choice(["", "", rng.choice(self.policies) + "."]) + rng.choice("xy")
            fields = rng.choice(["*", "v", "v, w", "v as u"])
            self.say("select %s into %s from %s%s" % (fields, target, source, rng.choice(["", " group by *", " group by *", " group by host"])))
        elif kind < 0.64:
            what = rng.choice(["delete from %s", "drop series from %s", "delete from %s where host = 'a'", "delete from %s where time < " + "%ds" % (self.at - 20)])
            # Of rows that INTO wrote the host may be a field, and then 1.6.7 deletes from shards that come first, and then refuses.
            place = rng.choice([source, "m", "n"])
            self.say(what % ("m" if "host" in what and place[-1] not in "mn" else place))
        elif kind < 0.74:
            # Here a measurement whose rows were all deleted has no fields; there it has them for some time.
            self.say("show measurements")
        else:
            self.say("select %s from %s%s" % (rng.choice(["v", "v, w", "count(v)", "sum(v)", "last(v)"]), source, rng.choice(["", "", " group by host"])))


# --- all of it -----------------------------------------------------------------------------------------------------


class Tally:
    def __init__(self, arguments):
        self.arguments = arguments
        self.compared = 0
        self.explained = {}
        self.different = []

    def compare(self, statement, extra=None, method="POST", shape=lambda answer: answer):
        ours = shape(ask(self.arguments.ours, statement, extra, method))
        theirs = shape(ask(self.arguments.theirs, statement, extra, method))
        self.compared += 1
        if same_answers(ours, theirs):
            return
        why = explanation(statement, ours, theirs)
        if why:
            self.explained[why] = self.explained.get(why, 0) + 1
            return
        shown = statement + ("" if not extra else "   " + json.dumps(extra))
        self.different.append((shown, ours, theirs))
        if len(self.different) <= self.arguments.show:
            print("DIFFERENT: %s\n   ours:   %d %s\n   theirs: %d %s" % (
                shown, ours[0], ours[1].strip()[: self.arguments.width],
                theirs[0], theirs[1].strip()[: self.arguments.width]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--theirs", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=500, help="random statements of each kind")
    parser.add_argument("--only", choices=["show", "select", "changes"], help="one part")
    parser.add_argument("--show", type=int, default=50, help="differences to print")
    parser.add_argument("--width", type=int, default=600, help="bytes of an answer to print")
    parser.add_argument("--findings", help="a file for the statements that differ, a line each")
    arguments = parser.parse_args()

    for url in (arguments.ours, arguments.theirs):
        for name in (DB, "compare2", "compare3", Changing.NAME, CLOCKS):
            ask(url, 'drop database "%s"' % name)
        ask(url, 'create database "%s"' % DB)
        ask(url, 'create database "%s"' % CLOCKS)
        for name, rows in [(DB, lines()), (CLOCKS, "\n".join(clocks_set()))]:
            status, body = post(url, "/write", {"db": name}, rows.encode())
            if status != 204:
                sys.exit("%s refused the lines: %s %s" % (url, status, body))

    tally, begun = Tally(arguments), time.monotonic()
    is_wanted = lambda part: arguments.only in (None, part)
    # Names that only one of the two servers has would differ in every list of them.
    here = [statement for statement in SHOW if statement != "show databases"]
    if is_wanted("show"):
        for statement in here:
            tally.compare(statement)
        for statement in here[:40]:
            tally.compare(statement, {"pretty": "true"}, "GET")
        rng = random.Random(arguments.seed)
        for _ in range(arguments.random):
            tally.compare(random_show(rng))
    if is_wanted("select"):
        for statement in SELECTS:
            tally.compare(statement)
        for epoch in ["n", "ns", "u", "ms", "s", "m", "h", "x"]:
            tally.compare(SELECTS[0], {"epoch": epoch})
            tally.compare(SELECTS[0], {"epoch": epoch, "chunked": "true", "chunk_size": "2"})
        rng = random.Random(arguments.seed)
        for _ in range(arguments.random):
            tally.compare(random_select(rng))
        for _ in range(arguments.random // 5):
            tally.compare(random_integral(rng), shape=gathered)
        for _ in range(arguments.random // 3):
            tally.compare(random_several(rng))
            tally.compare(random_nested(rng))
        for _ in range(arguments.random // 5):
            tally.compare(random_clocks(rng))
    if is_wanted("changes"):
        for statement in CHANGES:
            tally.compare(statement)
        for statement in CHANGES[:30]:
            tally.compare(statement, method="GET")
        rng = random.Random(arguments.seed)
        for _ in range(max(1, arguments.random // 300)):
            changing = Changing(tally, rng)
            for _ in range(60):
                changing.step()

    for why, count in sorted(tally.explained.items()):
        print("explained, %d: %s" % (count, why))
    if arguments.findings:
        with open(arguments.findings, "w") as file:
            for statement, ours, theirs in tally.different:
                file.write("%s\n   ours:   %s\n   theirs: %s\n" % (statement, ours[1].strip()[:20000], theirs[1].strip()[:20000]))
    print("%d statements compared, %d explained, %d different, %.1f s, seed %d" % (
        tally.compared, sum(tally.explained.values()), len(tally.different), time.monotonic() - begun, arguments.seed))
    sys.exit(1 if tally.different else 0)


if __name__ == "__main__":
    main()
