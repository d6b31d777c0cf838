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
from influxdb_answers import (  # noqa: E402
    cells,
    gathered,
    is_refused,
    same,
    same_answers,
    same_beside_residue,
    same_but_for_column,
    same_but_for_signs,
    same_but_for_text,
    same_cells,
    same_forecast,
    same_rows,
    same_shape,
    same_unpacked,
    same_until_the_error,
    same_without_columns,
    same_without_decimals,
    same_without_partial,
    same_without_shards,
    same_without_values_of,
    same_without_zero,
    unpacked,
)
from influxdb_statements import (  # noqa: E402
    CHANGES,
    CLOCKS,
    SELECTS,
    SHOW,
    T0,
    clocks_set,
    lines,
    random_clocks,
    random_forecast,
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


def raw(url, statement, accept):
    """An answer in another form, as bytes, with the type that it says."""
    target = url + "/query?" + urllib.parse.urlencode({"db": DB, "q": statement})
    request = urllib.request.Request(target, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def ask(url, statement, extra=None, method="POST"):
    params = {"db": DB, "q": statement}
    params.update(extra or {})
    return post(url, "/query", params, method=method)




# The answer must be what LIMIT and OFFSET leave of their whole list.
WINDOW = object()

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
        r"(?i)^select holt_winters(_with_fit)?\(",
        r"",
        "a forecast, which is searched for in small steps, makes more of the last digits (1 of 700 beyond 1e-12)",
        same_forecast,
    ),
    (
        r"(?i)^show series cardinality (from|where|on)",
        r"cardinality estimation",
        "1.12 estimates them by measurement, and its column says so",
        same_but_for_text("cardinality estimation", "count"),
    ),
    (
        r"(?i)^show retention policies",
        r"futureWriteLimit",
        "1.12 shows the limits of writes in two more columns",
        same_without_columns("futureWriteLimit", "pastWriteLimit"),
    ),
    (
        r"(?i)^show queries",
        r"",
        "times and numbers of statements differ; 1.12 has a column `user`",
        same_but_for_column("user"),
    ),
    (r"(?i)^show (diagnostics|stats|shards|shard groups)", r"", "each server's own", lambda ours, theirs: ours[0] == theirs[0] and "error" not in ours[1] + theirs[1]),
    (
        r"(?i)^explain",
        r"",
        "the plan is the server's own",
        same_shape,
    ),
    (
        r"(?i)^create subscription",
        r"not supported",
        "not supported, and said so",
        is_refused("not supported"),
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
        same_until_the_error,
    ),
    (
        r"(?i)^drop series|^delete",
        r"shard \d+: fields not supported",
        "1.6.7 names the shard; there is none here, and the rest of the text is the same",
        same_without_shards,
    ),
    (
        r"(?i)^drop subscription s ?",
        r"not found",
        "the statement that makes it is not supported",
        is_refused("not found"),
    ),
    (
        r"(?i)^show tag values from cpu with key = host$",
        r'"d"',
        "1.6.7 goes on listing values of tags whose series were deleted",
        same_without_values_of("d"),
    ),
    (
        r"(?i)^show series.*time.*(limit|offset)",
        r"",
        "with a condition on time 1.6.7 counts LIMIT and OFFSET anew for parts of the list",
        WINDOW,
    ),
    (
        r"(?i)^select count\(usage\) from cpu group by time\(30m\)$",
        r'"partial":true',
        "1.6.7 calls a series of more than 10,000 rows partial although it is whole",
        same_without_partial,
    ),
    (
        r"(?i)^select abs\(",
        r"",
        "1.6.7 leaves negative integers as they are; 1.12 does not",
        same_but_for_signs,
    ),
    (
        r"",
        r"type error: .*\d\.\d+: incompatible",
        "1.6.7 prints numbers with three decimals",
        same_without_decimals,
    ),
    (
        r"(?i)^select distinct\(",
        r"",
        "the order of distinct values is that of a hash table there",
        same_rows,
    ),
    (
        r"(?i)^drop retention policy",
        r"default schema",
        "the default policy cannot be dropped: make another one the default first",
        is_refused("default schema"),
    ),
]


def holds(check, ours, theirs, whole):
    """Whether a check holds. An answer that it cannot read is not what it explains."""
    try:
        if check is WINDOW:
            return whole is not None and same_answers(ours, windowed(*whole()))
        return check(ours, theirs)
    except (ValueError, KeyError, IndexError, TypeError):
        return False


def explanation(statement, ours, theirs, whole=None):
    """Why two answers differ; `whole` asks theirs for the list without its window."""
    both = ours[1] + theirs[1]
    for pattern, answers, why, check in EXPLAINED:
        if re.search(pattern, statement) and re.search(answers, both) and holds(check, ours, theirs, whole):
            return why
    return None


LIMITS = re.compile(r"(?i)(?: limit (\d+))?(?: offset (\d+))?$")


def windowed(answer, limit, offset):
    """The rows of an answer of one series that LIMIT and OFFSET leave."""
    status, text = answer
    document = json.loads(text)
    for result in document["results"]:
        for series in result.get("series", []):
            series["values"] = series["values"][offset:][: limit or None]
        if "series" in result:
            result["series"] = [series for series in result["series"] if series["values"]]
            if not result["series"]:
                del result["series"]
    return status, json.dumps(document)


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

        def whole():
            limit, offset = (int(number or 0) for number in LIMITS.search(statement).groups())
            return shape(ask(self.arguments.theirs, LIMITS.sub("", statement), extra, method)), limit, offset

        why = explanation(statement, ours, theirs, whole)
        if why:
            self.explained[why] = self.explained.get(why, 0) + 1
            return
        shown = statement + ("" if not extra else "   " + json.dumps(extra))
        self.different.append((shown, ours, theirs))
        if len(self.different) <= self.arguments.show:
            print("DIFFERENT: %s\n   ours:   %d %s\n   theirs: %d %s" % (
                shown, ours[0], ours[1].strip()[: self.arguments.width],
                theirs[0], theirs[1].strip()[: self.arguments.width]))


    def compare_form(self, statement, form):
        """An answer in CSV or MessagePack, of a statement whose JSON is the same on both sides."""
        if not same_answers(ask(self.arguments.ours, statement), ask(self.arguments.theirs, statement)):
            # It was compared, and explained or reported, where its JSON was.
            return
        accept = {"csv": "application/csv", "msgpack": "application/x-msgpack"}[form]
        ours, theirs = (raw(url, statement, accept) for url in (self.arguments.ours, self.arguments.theirs))
        self.compared += 1
        read, is_same = (cells, same_cells) if form == "csv" else (unpacked, same_unpacked)
        try:
            if ours[0] == theirs[0] and is_same(read(ours[2]), read(theirs[2])):
                return
        except ValueError:
            pass
        why = form_explanation(form, ours, theirs)
        if why:
            self.explained[why] = self.explained.get(why, 0) + 1
            return
        shown = "%s   as %s" % (statement, form)
        as_text = [(status, repr(body)) for status, _, body in (ours, theirs)]
        self.different.append((shown, *as_text))
        if len(self.different) <= self.arguments.show:
            print("DIFFERENT: %s\n   ours:   %d %s\n   theirs: %d %s" % (
                shown, as_text[0][0], as_text[0][1][: self.arguments.width], as_text[1][0], as_text[1][1][: self.arguments.width]))


def form_explanation(form, ours, theirs):
    """Why two answers in another form differ although their JSON does not."""
    if form == "csv" and ours[0] == theirs[0] and not theirs[2] and ours[2].startswith(b"error\n"):
        return "in CSV the error of a statement is under a heading here, and lost there"
    return None


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
        for _ in range(arguments.random // 10):
            tally.compare(random_forecast(rng))
        for statement in SELECTS[:30]:
            for form in ("csv", "msgpack"):
                tally.compare_form(statement, form)
        for _ in range(arguments.random // 10):
            tally.compare_form(random_select(rng), rng.choice(["csv", "msgpack"]))
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
