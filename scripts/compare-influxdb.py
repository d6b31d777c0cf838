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

DB = "compare"
T0 = 1577836800  # 2020-01-01T00:00:00Z, a Wednesday


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


# --- rows ----------------------------------------------------------------------------------------------------------


def lines():
    """Rows with what makes answers differ: absent tags, absent fields, negative numbers, equal values, gaps."""
    rng = random.Random(1)
    out = []
    for step in range(240):
        # No two series have a row of one time: in which order 1.6.7 gives those, nothing says.
        for nth, (host, region) in enumerate([("a", "eu"), ("b", "eu"), ("c", "us"), ("d", None)]):
            at = T0 + step * 30 + nth * 7
            if rng.random() < 0.15:
                continue
            tags = "host=%s" % host + (",region=%s" % region if region else "")
            fields = ["usage=%r" % round(rng.uniform(-5, 100), 2)]
            if rng.random() < 0.8:
                fields.append("n=%di" % rng.randint(-20, 20))
            if rng.random() < 0.3:
                fields.append('s="%s"' % rng.choice(["x", "y z", 'q"uote', "lt<gt>&"]).replace('"', '\\"'))
            if rng.random() < 0.4:
                fields.append("ok=%s" % rng.choice(["true", "false"]))
            out.append("cpu,%s %s %d000000000" % (tags, ",".join(fields), at))
    for step in range(60):
        at = T0 + step * 120 + 7
        out.append("mem,host=%s free=%di,total=100i %d000000000" % (rng.choice("abc"), rng.randint(0, 100), at))
    for step in range(20):
        out.append("disk used=%r %d000000000" % (rng.choice([0.5, 1.5, 2.0, 2.0, -0.25]), T0 + step * 600))
    for step, text in enumerate(["one", "two", "two", "three"]):
        out.append('log,app=web,level=info text="%s",code=%di %d000000000' % (text, 200 + step, T0 + step))
    out.append("odd\\ name,ta\\ g=v\\,1,t\\=2=x\\ y fi\\ eld=1,f2=2i %d000000000" % T0)
    out.append("sparse,k=v a=1 %d000000000" % T0)
    out.append("sparse,k=v b=2 %d000000000" % (T0 + 60))
    out.append("sparse,k=v a=3,b=4 %d000000000" % (T0 + 86400 * 3))
    out += twins() + clocks_set()
    return "\n".join(out)


def twins():
    """A measurement with the names of another one: limits of rows and series count in each."""
    rng, out = random.Random(2), []
    for step in range(60):
        for nth, tags in enumerate(["host=a,region=eu", "host=b,region=us", "host=c"]):
            if rng.random() < 0.8:
                at = T0 + step * 110 + nth * 11 + 3
                out.append("gpu,%s usage=%r,n=%di %d000000000" % (tags, round(rng.uniform(-5, 100), 2), rng.randint(-20, 20), at))
    return out


def clocks_set():
    """Days on which clocks are set in Europe: one of 25 hours, one of 23."""
    rng, out = random.Random(3), []
    for begin in (1603576800, 1585350000):  # 2020-10-25 and 2020-03-28, midnight in Berlin
        for step in range(4 * 60):
            if rng.random() < 0.9:
                out.append("dst,host=%s v=%r,n=%di %d000000000" % ("ab"[step % 2], round(rng.uniform(0, 9), 1), rng.randint(0, 9), begin + step * 900))
    return out


# --- statements ----------------------------------------------------------------------------------------------------


def written(name):
    """Statements written by hand, a line each."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata", "influxql")
    with open(os.path.join(folder, name + ".txt")) as file:
        return file.read().splitlines()


SHOW = written("show")

# Each of these may change something; they run in this order, at the end, on a database of their own.
CHANGES = written("changes")

SELECTS = written("select")

RANGE = "time >= '2020-01-01T00:00:00Z' and time < '2020-01-01T02:00:00Z'"


def random_select(rng):
    field = lambda: rng.choice(["usage", "usage", "n", "n", "s", "ok"])
    number = lambda: rng.choice(["usage", "n"])
    is_grouped = rng.random() < 0.6
    conditions = []
    if rng.random() < 0.7 or is_grouped:
        start = rng.randrange(0, 7000)
        stop = start + rng.randrange(1, 7200)
        conditions.append(
            "time %s %d000000000 and time %s %ds"
            % (rng.choice([">", ">="]), T0 + start, rng.choice(["<", "<="]), T0 + stop)
        )
    if rng.random() < 0.4:
        conditions.append(
            rng.choice(
                [
                    "host = 'a'",
                    "host != 'b'",
                    "host =~ /[bc]/",
                    "host !~ /a/",
                    "region = ''",
                    "region = 'eu'",
                    "(host = 'a' or host = 'c')",
                    "region != ''",
                ]
            )
        )
    if rng.random() < 0.25:
        conditions.append(
            rng.choice(["usage > 50", "n < 0", "n >= 3", "s = 'x'", "ok = true", "usage + n > 60", "n != 4", "s =~ /y/"])
        )
    if is_grouped:
        aggregate = lambda: rng.choice(
            ["mean(%s)", "sum(%s)", "stddev(%s)", "spread(%s)", "median(%s)", "max(%s)", "min(%s)", "integral(%s)"]
        ) % number() if rng.random() < 0.6 else rng.choice(
            ["count(%s)", "first(%s)", "last(%s)", "mode(%s)"]
        ) % field()
        kind = rng.random()
        if kind < 0.65:
            fields = ", ".join(aggregate() for _ in range(rng.choice([1, 1, 1, 2, 3])))
        elif kind < 0.8:
            fields = rng.choice(
                ["derivative(mean(%s), 1m)", "difference(max(%s))", "cumulative_sum(sum(%s))", "moving_average(mean(%s), 2)", "non_negative_difference(last(%s))"]
            ) % number()
        else:
            fields = "%s %s %s" % (aggregate(), rng.choice("+-*/"), rng.choice([aggregate(), "2", "0.5", "0"]))
    else:
        kind = rng.random()
        if kind < 0.4:
            fields = ", ".join(sorted({field() for _ in range(rng.choice([1, 2, 3]))}))
        elif kind < 0.5:
            fields = "*"
        elif kind < 0.7:
            fields = "%s %s %s" % (number(), rng.choice("+-*/"), rng.choice([number(), "2", "0", "1.5"]))
        elif kind < 0.8:
            fields = rng.choice(["abs(%s)", "floor(%s)", "difference(%s)", "cumulative_sum(%s)", "derivative(%s, 10s)", "elapsed(%s, 1s)", "sqrt(%s)", "moving_average(%s, 3)"]) % number()
        else:
            fields = rng.choice(["max(%s)", "min(%s)", "first(%s)", "last(%s)", "percentile(%s, 75)", "top(%s, 3)", "bottom(%s, 2)", "mean(%s)", "distinct(%s)", "max(%s), host"]) % number()
    source = rng.choice(["cpu", "cpu", "cpu", "/cp./"])
    groups = []
    if is_grouped:
        groups.append(rng.choice(["time(1m)", "time(5m)", "time(7m)", "time(10m, 3m)", "time(1h)", "time(30s)"]))
    if rng.random() < 0.4:
        groups.append(rng.choice(["host", "region", "host, region", "*", "/re/"]))
        if "integral(" in fields:
            # Of several series 1.6.7 shows the last bucket of each after all others, in the order of a hash table.
            conditions.append("host = 'c'")
    text = "select %s from %s" % (fields, source)
    if conditions:
        text += " where " + " and ".join(conditions)
    if groups:
        text += " group by " + ", ".join(groups)
    if is_grouped and rng.random() < 0.5:
        text += " fill(%s)" % rng.choice(["null", "none", "previous", "linear", "0", "-1.5"])
    if rng.random() < 0.3:
        text += " order by time %s" % rng.choice(["asc", "desc"])
    if rng.random() < 0.4:
        text += " limit %d" % rng.randint(1, 12)
        if rng.random() < 0.4:
            text += " offset %d" % rng.randint(1, 5)
    if groups and rng.random() < 0.2:
        text += " slimit %d" % rng.randint(1, 3)
        if rng.random() < 0.4:
            text += " soffset %d" % rng.randint(0, 2)
    if is_grouped and rng.random() < 0.1:
        text += " tz('Europe/Berlin')"
    if rng.random() < 0.12:
        inner = "select mean(usage) as m, max(n) as x from cpu where %s group by time(5m), host" % RANGE
        text = rng.choice(
            [
                "select mean(m) from (%s)",
                "select m * 2 from (%s) limit 5",
                "select max(x) from (%s) group by host",
                "select count(m) from (%s) where m > 40 group by host",
                "select sum(x) from (%s) where %s group by time(20m)",
            ]
        )
        text = text % ((inner, RANGE) if text.count("%s") == 2 else inner)
    return text


def random_integral(rng):
    """Integrals of several series in a group, and of several groups: what `random_select` asks of one."""
    unit = rng.choice(["", "", ", 1m", ", 10s", ", 7s"])
    text = "select integral(%s%s) from %s" % (rng.choice(["usage", "n"]), unit, rng.choice(["cpu", "cpu", "/cp./"]))
    start = rng.randrange(0, 7000)
    conditions = ["time >= %ds and time < %ds" % (T0 + start, T0 + start + rng.randrange(1, 7200))]
    if rng.random() < 0.4:
        conditions.append(rng.choice(["host != 'b'", "host =~ /[bc]/", "region = 'eu'", "region = ''", "usage > 50", "n < 0", "ok = true"]))
    text += " where " + " and ".join(conditions)
    groups = rng.choice([[], [], ["host"], ["region"], ["host", "region"], ["*"]])
    # What a fill counts of buckets that come last is another matter.
    window = rng.choice([None, "time(1m)", "time(5m)", "time(7m)", "time(10m, 3m)", "time(1h)", "time(30s)"])
    if window:
        groups = [window] + groups
    if groups:
        text += " group by " + ", ".join(groups)
    if window:
        text += " fill(none)"
    if rng.random() < 0.3:
        text += " order by time desc"
    return text


def random_several(rng):
    """Several measurements: LIMIT, OFFSET, SLIMIT and SOFFSET count in each."""
    is_grouped = rng.random() < 0.4
    if is_grouped:
        fields = rng.choice(["mean(usage)", "count(n)", "max(usage), min(n)", "sum(n)", "last(usage)"])
    else:
        fields = rng.choice(["usage", "usage, n", "*", "usage, host", "n * 2", "count(usage)", "max(n)", "top(usage, 2)", "first(usage), host"])
    text = "select %s from %s" % (fields, rng.choice(["cpu, gpu", "gpu, cpu", "/^.pu$/", "cpu, gpu, mem", "gpu"]))
    start = rng.randrange(0, 5000)
    conditions = ["time >= %ds and time < %ds" % (T0 + start, T0 + start + rng.randrange(1, 3000))]
    if rng.random() < 0.3:
        conditions.append(rng.choice(["host = 'a'", "host != 'b'", "region = ''", "usage > 50"]))
    text += " where " + " and ".join(conditions)
    groups = (["time(5m)"] if is_grouped else []) + rng.choice([[], [], ["host"], ["region"], ["*"]])
    if groups:
        text += " group by " + ", ".join(groups)
    if is_grouped:
        text += " fill(none)"
    if rng.random() < 0.3:
        text += " order by time desc"
    if rng.random() < 0.5:
        text += " limit %d" % rng.randint(2, 6) + rng.choice(["", "", " offset %d" % rng.randint(1, 3)])
    if rng.random() < 0.6:
        text += " slimit %d" % rng.randint(1, 3) + rng.choice(["", "", " soffset %d" % rng.randint(0, 2)])
    return text


def random_nested(rng):
    """Queries in queries: what is a tag outside, whose range and whose buckets count, whose LIMIT."""
    span = lambda: "time >= %ds and time < %ds" % ((lambda at: (at, at + rng.randrange(600, 6000)))(T0 + rng.randrange(0, 5000)))
    inner_range = " where " + span() if rng.random() < 0.4 else ""
    limit = rng.choice(["", "", " limit %d" % rng.randint(1, 5)])
    inner, outputs = rng.choice(
        [
            ("select * from cpu%s" + limit, ["usage", "n"]),
            ("select usage, host from cpu%s" + limit, ["usage"]),
            ("select usage, n from cpu%s group by host" + limit, ["usage", "n"]),
            ("select * from cpu%s group by *", ["usage", "n"]),
            ("select max(usage) as m from cpu%s", ["m"]),
            ("select max(usage) as m from cpu%s group by host", ["m"]),
            ("select difference(n) as m from cpu%s group by host", ["m"]),
            ("select difference(mean(usage)) as m from cpu%s group by time(7m)", ["m"]),
            ("select derivative(sum(n), 1m) as m from cpu%s group by time(5m), host", ["m"]),
            ("select moving_average(mean(n), 3) as m from cpu%s group by time(10m)", ["m"]),
            ("select cumulative_sum(count(n)) as m from cpu%s group by time(10m)", ["m"]),
            ("select mean(n) as m from cpu%s group by time(3m)", ["m"]),
        ]
    )
    inner = inner % inner_range
    field = rng.choice(outputs)
    is_tagged = "group by time" in inner and "host" in inner or "max(usage)" in inner and "host" in inner
    groups = []
    if rng.random() < 0.45:
        fields = rng.choice(["*", field] if not is_tagged else ["*"])
        groups = rng.choice([[], ["*"], ["host"]]) if not is_tagged else rng.choice([["*"], ["host"]])
    elif rng.random() < 0.3 and not is_tagged:
        fields = rng.choice(["top(%s, 2)", "bottom(%s, 3)"]) % field
        groups = rng.choice([[], ["host"]])
    else:
        fields = rng.choice(["sum(%s)", "count(%s)", "mean(%s)", "max(%s)", "count(*)"]).replace("%s", field)
        groups = rng.choice([[], ["time(7m)"], ["time(1h)"], ["time(20m)", "host"], ["*"], ["host"]])
        if groups and groups[0].startswith("time") and "group by time" not in inner and rng.random() < 0.3:
            groups = ["time(5h)"] + groups[1:]
    text = "select %s from (%s)" % (fields, inner)
    is_bucketed = any(group.startswith("time") for group in groups)
    if rng.random() < 0.6 or is_bucketed:
        text += " where " + span()
    if groups:
        text += " group by " + ", ".join(groups)
    if is_bucketed:
        text += " fill(none)"
    if rng.random() < 0.3:
        text += " limit %d" % rng.randint(3, 8)
    if is_bucketed and rng.random() < 0.2:
        text += " tz('Europe/Berlin')"
    return text


def random_clocks(rng):
    """Buckets of local time around the days on which clocks are set."""
    begin = rng.choice([1603576800, 1585350000]) + rng.randrange(0, 40) * 3600
    stop = begin + rng.randrange(2, 60) * 3600
    fields = rng.choice(["mean(v)", "count(v)", "sum(n)", "max(v), min(v)", "last(n)", "integral(v, 1h)", "integral(n, 1h)", "median(v)", "difference(mean(v))", "cumulative_sum(sum(n))"])
    text = "select %s from dst where time >= %ds and time < %ds" % (fields, begin, stop)
    text += " group by time(%s)" % rng.choice(["1h", "2h", "5h", "6h", "12h", "1d", "1d", "1d, 6h", "6h, 30m", "7d"])
    if "integral" not in fields:
        text += rng.choice(["", ", host"]) + " fill(%s)" % rng.choice(["none", "none", "null", "0", "previous"])
        text += rng.choice(["", "", " order by time desc", " limit 3"])
    return text + " tz('%s')" % rng.choice(["Europe/Berlin", "Europe/Berlin", "Europe/London", "Asia/Tokyo", "Australia/Lord_Howe"])


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
            tags = rng.choice(["", ",host=a", ",host=b", ",host=b,region=eu"])
            # The field of a tag's name always is a text, so that no types clash.
            fields = rng.choice(["v=%d" % rng.randint(0, 9), "v=%d" % rng.randint(0, 9), 'host="x",v=1', "w=2i,v=7"])
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
            target = rng.choice(["", "", policy + "."]) + rng.choice("xy")
            fields = rng.choice(["*", "v", "v, w", "v as u"])
            self.say("select %s into %s from %s%s" % (fields, target, source, rng.choice(["", " group by *", " group by *", " group by host"])))
        elif kind < 0.64:
            what = rng.choice(["delete from %s", "drop series from %s", "delete from %s where host = 'a'", "delete from %s where time < " + "%ds" % (self.at - 20)])
            self.say(what % rng.choice([source, "m", "n", "x"]))
        elif kind < 0.74:
            # Of a pattern 1.6.7 lists fields of one of the measurements now and then.
            self.say(rng.choice(["show field keys", "show field keys from " + prefix + rng.choice("mnx"), "show series from m", "show measurements", "show series where time > 0"]))
        else:
            self.say("select %s from %s%s" % (rng.choice(["v", "v, w", "count(v)", "sum(v)", "v, host", "last(v)"]), source, rng.choice(["", "", " group by *", " group by host"])))


def random_show(rng):
    source = rng.choice(["", "", " from cpu", " from mem", " from /c|m/", " from cpu, log"])
    condition = rng.choice(
        ["", "", " where host = 'a'", " where host != 'a'", " where region = ''", " where host =~ /a|c/", " where region !~ /e/",
         " where host = 'a' or region = 'us'", " where host = 'a' and region = 'eu'", " where (host = 'd' or host = 'a') and region != 'us'",
         " where time > '2020-01-01T00:00:00Z'", " where time < '2020-01-01T00:00:00Z' and host = 'a'"]
    )
    window = rng.choice(["", "", " limit 1", " limit 2", " limit 2 offset 1", " offset 1", " limit 10 offset 2"])
    kind = rng.randrange(5)
    if kind == 0:
        return "show series" + source + condition + window
    if kind == 1:
        return "show tag keys" + source + condition + window
    if kind == 2:
        keys = rng.choice(["= host", "!= host", "=~ /o/", "!~ /o/", "in (host, region)", "in (app, nope)"])
        return "show tag values" + source + " with key " + keys + condition + window
    if kind == 3:
        return "show field keys" + source + window
    if "time" in condition:
        condition = ""
    return "show measurements" + condition + window


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
        for name in (DB, "compare2", "compare3", Changing.NAME):
            ask(url, 'drop database "%s"' % name)
        ask(url, 'create database "%s"' % DB)
        status, body = post(url, "/write", {"db": DB}, lines().encode())
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
