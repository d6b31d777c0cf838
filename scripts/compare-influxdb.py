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
import csv
import io
import json
import os
import random
import re
import struct
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


# --- other forms ---------------------------------------------------------------------------------------------------


class Unpacker:
    """MessagePack, as its specification has it, as far as answers have it. Of the type of times only the bytes are read."""

    FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
    NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("MessagePack ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def items(self, count):
        return [self.value() for _ in range(count)]

    def pairs(self, count):
        return {self.value(): self.value() for _ in range(count)}

    def extension(self, count):
        kind = self.number(">b")
        return ("extension", kind, self.take(count))

    def value(self):
        first = self.number(">B")
        if first < 0x80:
            return first
        if first < 0x90:
            return self.pairs(first & 0x0F)
        if first < 0xA0:
            return self.items(first & 0x0F)
        if first < 0xC0:
            return self.take(first & 0x1F).decode()
        if first >= 0xE0:
            return first - 256
        if first in self.FIXED:
            return self.FIXED[first]
        if first in self.NUMBERS:
            value = self.number(self.NUMBERS[first])
            # A float stays one, also where it is whole.
            return ("float", value) if first <= 0xCB else value
        if 0xD4 <= first <= 0xD8:
            return self.extension(1 << (first - 0xD4))
        size = {0: ">B", 1: ">H", 2: ">I"}
        for start, read in (
            (0xC4, self.take),
            (0xC7, self.extension),
            (0xD9, lambda count: self.take(count).decode()),
        ):
            if start <= first < start + 3:
                return read(self.number(size[first - start]))
        if first in (0xDC, 0xDD):
            return self.items(self.number(">H" if first == 0xDC else ">I"))
        if first in (0xDE, 0xDF):
            return self.pairs(self.number(">H" if first == 0xDE else ">I"))
        raise ValueError("MessagePack has no byte %#x" % first)


def unpacked(data):
    """The documents of an answer in MessagePack."""
    unpacker, found = Unpacker(data), []
    while unpacker.at < len(data):
        found.append(unpacker.value())
    return found


def same_unpacked(one, other):
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0] == "float":
        return one[1] == other[1] or abs(one[1] - other[1]) <= 1e-12 * max(abs(one[1]), abs(other[1]))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_unpacked(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same_unpacked(x, y) for x, y in zip(one, other))
    return type(one) is type(other) and one == other


def cells(data):
    return list(csv.reader(io.StringIO(data.decode())))


def same_cell(one, other):
    if one == other:
        return True
    try:
        return any(char in one + other for char in ".eE") and same_number(one, other)
    except ValueError:
        return False


def same_cells(one, other):
    return len(one) == len(other) and all(
        len(x) == len(y) and all(same_cell(a, b) for a, b in zip(x, y)) for x, y in zip(one, other)
    )


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


def rows_in_any_order(answer):
    """An answer with the rows of each series sorted."""
    status, text = answer
    if status != 200:
        return answer
    document = json.loads(text)
    for result in document.get("results", []):
        for series in result.get("series", []):
            series["values"].sort(key=json.dumps)
    return status, json.dumps(document)


def same_forecast(ours, theirs):
    """The same to 1e-9: what an optimisation makes of last digits."""

    def near(one, other):
        if isinstance(one, Number) and isinstance(other, Number):
            return same_number(one, other) or abs(float(one) - float(other)) <= 1e-9 * max(abs(float(one)), abs(float(other)))
        if isinstance(one, (list, tuple)):
            return type(one) is type(other) and len(one) == len(other) and all(near(x, y) for x, y in zip(one, other))
        return type(one) is type(other) and one == other

    return ours[0] == theirs[0] and near(documents(ours[1]), documents(theirs[1]))


def same_rows(ours, theirs):
    return same_answers(rows_in_any_order(ours), rows_in_any_order(theirs))


def same_but_for_signs(ours, theirs):
    """The same where the other's negative integers are taken without their sign."""

    def unsigned(value):
        if isinstance(value, Number):
            return Number(value[1:]) if value.startswith("-") and not any(char in value for char in ".eE") else value
        if isinstance(value, (list, tuple)):
            return type(value)(unsigned(item) for item in value)
        return value

    # Times are before none of it: the rows are of 2020.
    return ours[0] == theirs[0] and same(documents(ours[1]), unsigned(documents(theirs[1])))


def same_shape(ours, theirs):
    """Series with the same names and columns, or errors: the values are each server's own."""

    def shape(answer):
        document = json.loads(answer[1])
        return [
            (sorted((series.get("name"), series["columns"]) for series in result.get("series", [])), result.get("error"))
            for result in document["results"]
        ]

    return ours[0] == theirs[0] and shape(ours) == shape(theirs)


def columns_of(answer):
    document = json.loads(answer[1])
    return [[series["columns"] for series in result.get("series", [])] for result in document["results"]]


def same_but_for_column(*names):
    """The same columns in the same order, but for those that only we have."""

    def check(ours, theirs):
        kept = [[[name for name in columns if name not in names] for columns in result] for result in columns_of(ours)]
        return ours[0] == theirs[0] == 200 and kept == columns_of(theirs)

    return check


def same_without_columns(*names):
    """The same rows, but for columns that only we have."""

    def check(ours, theirs):
        document = json.loads(ours[1])
        for result in document["results"]:
            for series in result.get("series", []):
                kept = [at for at, name in enumerate(series["columns"]) if name not in names]
                series["columns"] = [series["columns"][at] for at in kept]
                series["values"] = [[row[at] for at in kept] for row in series["values"]]
        return same_answers((ours[0], json.dumps(document)), theirs)

    return check


def same_but_for_text(one, other):
    """The same where one text of ours is another one of theirs."""
    return lambda ours, theirs: same_answers((ours[0], ours[1].replace(one, other)), theirs)


def same_until_the_error(ours, theirs):
    """The same results before the first error, and an error there, which theirs may have replaced."""
    if ours[0] != theirs[0]:
        return False
    one, other = (json.loads(answer[1])["results"] for answer in (ours, theirs))
    failed = next((at for at, result in enumerate(one) if "error" in result), None)
    if failed is None or len(other) != failed + 1 or "error" not in other[failed]:
        return False
    rest_is_not_run = all(result.get("error") == "not executed" for result in one[failed + 1 :])
    is_same_error = other[failed]["error"] in ("not executed", one[failed]["error"])
    before = [(200, json.dumps(results[:failed])) for results in (one, other)]
    return rest_is_not_run and is_same_error and same_answers(*before)


def is_refused(words):
    """Ours is an error with these words, and theirs succeeds or fails for a reason that ours does not come to."""
    return lambda ours, theirs: words in ours[1] and '"error"' in ours[1]


def same_without_shards(ours, theirs):
    """Errors that differ by the number of a shard only."""
    return same_answers(ours, (theirs[0], re.sub(r"shard \d+: ", "", theirs[1])))


def same_without_decimals(ours, theirs):
    """Errors whose numbers are written otherwise."""

    def plain(answer):
        return answer[0], re.sub(r"\d+\.\d+", lambda number: "%g" % float(number.group()), answer[1])

    return same_answers(plain(ours), plain(theirs))


def same_without_partial(ours, theirs):
    return same_answers(ours, (theirs[0], theirs[1].replace(',"partial":true', "")))


def same_without_values_of(tag_value):
    """The same but for a value of a tag that theirs goes on listing."""

    def check(ours, theirs):
        document = json.loads(theirs[1])
        for result in document["results"]:
            for series in result.get("series", []):
                series["values"] = [row for row in series["values"] if row[-1] != tag_value]
        return same_answers(ours, (theirs[0], json.dumps(document)))

    return check


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
