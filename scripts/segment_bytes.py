#!/usr/bin/env python3
"""Where the bytes of a segment go: by column, encoding and part. Reads docs/format/segment.md and page.md, and shares no code with the engine.

    python3 scripts/segment_bytes.py FILE.seg ...

Checksums are counted, not checked. A page that several blocks share is counted once.
"""

import collections
import struct
import sys

TYPES = "I64 U64 F64 Bool Text Bytes".split()
ENCODINGS = {
    0: "CONST", 1: "STRIDE", 2: "FOR", 3: "DELTA", 4: "RAW", 5: "RUNS", 6: "DISTINCT", 7: "GRID", 8: "DECIMAL",
    9: "IMAGE", 10: "DYADIC", 11: "PCO", 12: "BITMAP", 13: "BLOCKED", 16: "PLAIN", 17: "DICTIONARY", 18: "PLAIN zstd",
    19: "DICTIONARY zstd", 20: "TRANSPOSED",
}


class Input:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("the bytes end early")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self):
        value, shift = 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def packed(self, count, width):
        bits = int.from_bytes(self.take((count * width + 7) // 8), "little")
        mask = (1 << width) - 1
        return [bits >> (at * width) & mask for at in range(count)]

    def packing(self, count):
        width, patches, base = self.byte(), self.varint(), self.zigzag()
        values = self.packed(count, width)
        if patches:
            high = self.byte()
            positions = self.packed(patches, (count - 1).bit_length())
            for at, value in zip(positions, self.packed(patches, high)):
                values[at] += value << width
        return [signed(base + value) for value in values]

    def chunk(self, count):
        encoding = self.byte()
        if encoding == 0:
            return [self.zigzag()] * count
        if encoding == 1:
            first, step = self.zigzag(), self.zigzag()
            return [signed(first + at * step) for at in range(count)]
        if encoding == 2:
            return self.packing(count)
        if encoding == 3:
            return sums(self.zigzag(), self.packing(count - 1))
        if encoding == 4:
            return list(struct.unpack("<%dq" % count, self.take(8 * count)))
        if encoding == 5:
            runs = self.varint()
            values, lengths = self.chunk(runs), self.chunk(runs)
            return [value for value, length in zip(values, lengths) for _ in range(length)]
        if encoding == 6:
            entries = self.chunk(self.varint())
            return [entries[code] for code in self.chunk(count)]
        if encoding == 7:
            base, width = self.zigzag(), self.varint()
            return [signed(base + width * number) for number in self.chunk(count)]
        if encoding == 13:
            first = self.zigzag() if self.byte() else None
            numbers = count - (first is not None)
            blocks = (numbers + 31) // 32
            widths, bases = self.chunk(blocks), self.chunk(blocks)
            values = []
            for block, (width, base) in enumerate(zip(widths, bases)):
                here = min(32, numbers - 32 * block)
                values += [signed(base + value) for value in self.packed(here, width)]
            return values if first is None else sums(first, values)
        raise ValueError("a chunk of encoding %d" % encoding)

    def integers(self, count):
        values = []
        while count:
            values += self.chunk(min(count, 1024))
            count -= min(count, 1024)
        return values


def signed(value):
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value


def sums(first, differences):
    values = [first]
    for difference in differences:
        values.append(signed(values[-1] + difference))
    return values


class Count:
    """Bytes by what they are for."""

    def __init__(self):
        self.bytes, self.units = collections.Counter(), collections.Counter()

    def add(self, what, count, units=1):
        self.bytes[what] += count
        self.units[what] += units


def name_of(column):
    return {0: "time", 2**32 - 1: "series"}.get(column, "field %d" % column)


def account(path, count):
    data = open(path, "rb").read()
    form = struct.unpack_from("<H", data, 8)[0]
    tail = data[-40:]
    offset, length = struct.unpack_from("<QQ", tail, 8)
    count.add("header, footer and tail", 64 + length + 40)
    footer = Input(data[offset : offset + length])
    footer.byte()
    if form >= 2:
        footer.byte()
    for _ in range(footer.varint()):
        table = footer.varint()
        for _ in range(5):
            footer.varint()
        rows, flags, start, pages = footer.varint(), footer.byte(), footer.varint(), footer.varint()
        parts = []
        for _ in range(4 if flags & 2 else 3):
            part = footer.varint()
            if part:
                footer.take(4)
            parts.append(part)
        count.units["rows of table %d" % table] += rows
        at = start + pages
        directory(data, data[at : at + parts[0]], table, form, count)
        for part, what in zip(parts[1:], ("statistics", "rollups", "list of large values")):
            at += parts[0]
            parts[0] = part
            if what == "list of large values":
                count.add("%s, table %d" % (what, table), part)
            elif part:
                packed(Input(data[at : at + part]), what, table, part, count)


def packed(part, what, table, size, count):
    if what == "rollups":
        entries, keys = part.varint(), part.varint()
        part.take(keys)
        count.add("%s, table %d: keys" % (what, table), keys, entries)
    columns = [(part.varint(), part.byte(), part.varint()) for _ in range(part.varint())]
    for column, kind, length in columns:
        label = "%s, table %d: %s" % (what, table, TYPES[kind])
        count.add(label, length, entries if what == "rollups" else 256)
        if what == "rollups":
            mine = Input(part.take(length))
            lengths = [mine.varint() for _ in range(6 if kind == 3 else 9)]
            names = "nulls before after min max last first low high".split() if kind < 2 else "nulls before after min max last first sum flags".split()
            for name, bytes_ in zip(names, lengths):
                count.bytes["  rollups, table %d %s %s" % (table, TYPES[kind], name)] += bytes_


def directory(data, part, table, form, count):
    size, part = len(part), Input(part)
    assert part.varint() == table
    blocks = part.varint()
    if form >= 2 and part.byte():
        raise ValueError("a directory of a device")
    lists = {}
    for name in "first series, last series, rows, min time, max time".split(", "):
        at = part.at
        lists[name] = part.integers(blocks)
        count.add("directory, table %d: %s" % (table, name), part.at - at, blocks)
    rows = lists["rows"]
    columns = part.varint()
    for _ in range(columns):
        column, kind = part.varint(), part.byte()
        flags = part.byte() if form >= 2 else 0
        at = part.varint()
        before = part.at
        lengths = part.integers(blocks)
        count.add("directory, table %d: lengths of pages" % table, part.at - before, blocks)
        gaps = [0] * blocks
        if flags & 1:
            before = part.at
            gaps = part.integers(blocks)
            count.add("directory, table %d: gaps" % table, part.at - before, blocks)
        if flags & 2:
            shared = part.varint()
            part.take(shared)
            count.add("directory, table %d: what pages share" % table, shared)
        places, texts = set(), set()
        for length, gap, own in zip(lengths, gaps, rows):
            at += gap
            if length and at not in places:
                places.add(at)
                text = data[at : at + length - 4]
                page(text, own, kind, form, table, column, count)
                if text in texts:
                    count.add("equal to an earlier page of the column and group, table %d" % table, length, own)
                texts.add(text)
            at += length
    count.add("directory, table %d: all" % table, size)


def page(data, rows, kind, form, table, column, count):
    encoding = data[0] & 63 if form >= 3 else data[0]
    what = "%s of %s" % (ENCODINGS[encoding], TYPES[kind])
    label = "pages, table %d: %s, %s" % (table, name_of(column), what)
    count.add(label, len(data) + 4, rows)
    count.units["* " + label] += 1
    nulls = 0
    if form >= 3 and data[0] & 64:
        part = Input(data[1:])
        number = part.varint()
        nulls = part.at + (number * (rows - 1).bit_length() + 7) // 8
    elif (data[0] if form >= 3 else data[1]) & 128:
        nulls = (rows + 7) // 8
    if nulls:
        count.add("of these: nulls, table %d" % table, nulls)
    count.add("of these: checksums, table %d" % table, 4)
    count.add("of these: headers, table %d" % table, 1 if form >= 3 else 4)


if __name__ == "__main__":
    count = Count()
    for path in sys.argv[1:]:
        account(path, count)
    for what in sorted(count.units):
        if not count.bytes[what]:
            print("%-75s %12s %12d" % (what, "", count.units[what]))
    for what in sorted(count.bytes):
        print("%-75s %12d %12d %9.4f" % (what, count.bytes[what], count.units[what], count.bytes[what] / max(1, count.units[what])))
