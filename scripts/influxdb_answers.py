"""Comparison of answers in InfluxDB's JSON, CSV and MessagePack, whole or but for a part.

Floats are the same to 1e-12 of their size, everything else exactly, order included. Standard library only.
"""

import csv
import io
import json
import re
import struct


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
