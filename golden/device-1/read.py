#!/usr/bin/env python3
"""Reads every golden device page: a third reader beside those in C and Rust, from docs/format/device-page.md and page.md alone.

`<name>.bin` with `<name>.rows` must have exactly those rows, `<name>.bin` with `<name>.refused` must break a rule. Shares nothing with the packers, the C
and the Rust code. Encodings that no device writes and any reader may know (runs, distinct values, grids, dictionaries) are
read too; those that are not of device pages are refused.
"""

import math
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
I64, U64, F64, BOOL, TEXT, BYTES = range(6)


class Refused(Exception):
    pass


def check(holds, why):
    if not holds:
        raise Refused(why)


def wrapped(x):
    return (x + 2**63) % 2**64 - 2**63


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        check(0 <= count <= len(self.data) - self.at, "bytes are missing")
        self.at += count
        return self.data[self.at - count : self.at]

    def u8(self):
        return self.take(1)[0]

    def varint(self):
        value = 0
        for index in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                check(value < 2**64, "a varint of more than 64 bits")
                return value
        raise Refused("a varint of more than ten bytes")

    def zigzag(self):
        value = self.varint()
        return value // 2 if value % 2 == 0 else -(value + 1) // 2

    def packed(self, count, width):
        check(width <= 64, "a width of more than 64 bits")
        raw = int.from_bytes(self.take((count * width + 7) // 8), "little")
        return [raw >> (i * width) & (1 << width) - 1 for i in range(count)]

    def end(self):
        check(self.at == len(self.data), "bytes are left over")


def positions(reader, count, rows):
    check(count <= rows, "more positions than rows")
    out = reader.packed(count, (rows - 1).bit_length())
    check(all(a < b for a, b in zip(out, out[1:])) and all(p < rows for p in out), "positions that do not rise, or beyond the rows")
    return out


def packing(reader, count):
    width, patches, base = reader.u8(), reader.varint(), reader.zigzag()
    check(width <= 64, "a width of more than 64 bits")
    low = reader.packed(count, width)
    if patches:
        high_width = reader.u8()
        check(1 <= high_width <= 64 - width, "a high width that cannot be")
        places = positions(reader, patches, count)
        for place, high in zip(places, reader.packed(patches, high_width)):
            low[place] += high << width
    return [wrapped(base + value) for value in low]


def integers(reader, encoding, count, is_nested=False):
    """`is_nested`: in runs, distinct values, grids and blocks, which have none of these in them."""
    if encoding == 0:
        return [reader.zigzag()] * count
    if encoding == 1:
        first, step = reader.zigzag(), reader.zigzag()
        return [wrapped(first + i * step) for i in range(count)]
    if encoding == 2:
        return packing(reader, count)
    if encoding == 3:
        values = [reader.zigzag()]
        for step in packing(reader, count - 1) if count > 1 else packing(reader, 0):
            values.append(wrapped(values[-1] + step))
        return values
    if encoding == 4:
        return list(struct.unpack("<%dq" % count, reader.take(8 * count)))
    check(not is_nested, "an encoding that stands in no other")
    nested = lambda n: integers(reader, reader.u8(), n, True)
    if encoding == 5:
        runs = reader.varint()
        check(1 <= runs <= count, "runs that cannot be")
        values, lengths = nested(runs), nested(runs)
        check(min(lengths) >= 1 and sum(lengths) == count, "runs of other rows")
        return [value for value, length in zip(values, lengths) for _ in range(length)]
    if encoding == 6:
        entries = reader.varint()
        check(1 <= entries <= count, "entries that cannot be")
        values, codes = nested(entries), nested(count)
        check(all(0 <= code < entries for code in codes), "a code that no entry has")
        return [values[code] for code in codes]
    if encoding == 7:
        base, width = reader.zigzag(), reader.varint()
        return [wrapped(base + width * number) for number in nested(count)]
    if encoding == 13:
        order = reader.u8()
        check(order <= 1 and count > order, "an order that cannot be")
        first = reader.zigzag() if order else None
        n = count - order
        widths, bases = nested((n + 31) // 32), nested((n + 31) // 32)
        check(all(0 <= width <= 64 for width in widths), "a width of more than 64 bits")
        numbers = []
        for i, (width, base) in enumerate(zip(widths, bases)):
            numbers += [wrapped(base + value) for value in reader.packed(min(32, n - 32 * i), width)]
        if not order:
            return numbers
        values = [first]
        for step in numbers:
            values.append(wrapped(values[-1] + step))
        return values
    raise Refused("an encoding of integers that nobody knows: %d" % encoding)


def unscaled(integer, scale, is_decimal):
    if is_decimal:
        return float(integer) / 10.0**scale if scale >= 0 else float(integer) * 10.0**-scale
    return math.ldexp(integer, -scale)


def floats(reader, encoding, count):
    """The bits of the values, and the integers that statistics are of, if they are of any."""
    if encoding == 4:
        return list(struct.unpack("<%dQ" % count, reader.take(8 * count))), None
    if encoding == 9:
        shift = reader.u8()
        check(shift <= 63, "a shift of more than 63")
        return [(value << shift) % 2**64 for value in integers(reader, reader.u8(), count)], None
    check(encoding in (8, 10), "an encoding of floats that nobody knows: %d" % encoding)
    scale = struct.unpack("<b", reader.take(1))[0]
    check(encoding == 10 or -18 <= scale <= 18, "a scale that is not exact")
    exceptions = reader.varint()
    places = positions(reader, exceptions, count)
    bits = struct.unpack("<%dQ" % exceptions, reader.take(8 * exceptions))
    whole = integers(reader, reader.u8(), count)
    bound = 2**51 if encoding == 8 else 2**53
    check(all(-bound <= value < bound for value in whole), "an integer that is not exact")
    values = [struct.unpack("<Q", struct.pack("<d", unscaled(value, scale, encoding == 8)))[0] for value in whole]
    for place, value in zip(places, bits):
        values[place] = value
    return values, None if exceptions else whole


def texts(reader, encoding, count, is_text):
    lengths_of = lambda n: integers(reader, reader.u8(), n)
    if encoding == 16:
        values = cut(reader, lengths_of(count))
    elif encoding == 17:
        entries = reader.varint()
        check(1 <= entries <= count, "entries that cannot be")
        known = cut(reader, lengths_of(entries))
        codes = lengths_of(count)
        check(all(0 <= code < entries for code in codes), "a code that no entry has")
        values = [known[code] for code in codes]
    else:
        raise Refused("an encoding of text that device pages do not have: %d" % encoding)
    if is_text:
        for value in values:
            try:
                value.decode("utf-8")
            except UnicodeDecodeError as error:
                raise Refused("text that is not UTF-8") from error
    return values


def cut(reader, lengths):
    check(min(lengths) >= 0, "a length below 0")
    return [reader.take(length) for length in lengths]


def column(data):
    """Type, values as they are shown, and the integers of statistics."""
    reader = Reader(data)
    encoding, kind, rows = reader.u8(), reader.u8(), struct.unpack("<H", reader.take(2))[0]
    check(1 <= rows <= 1024, "rows of a column that cannot be")
    check(kind < 6, "a type that nobody knows, or nulls")
    counted = None
    if kind in (I64, U64):
        counted = integers(reader, encoding, rows)
        shown = [str(value % 2**64 if kind == U64 else value) for value in counted]
    elif kind == F64:
        bits, counted = floats(reader, encoding, rows)
        shown = ["%016x" % value for value in bits]
    elif kind == BOOL:
        counted = reader.packed(rows, 1) if encoding == 12 else integers(reader, encoding, rows)
        check(all(value in (0, 1) for value in counted), "a boolean that is neither 0 nor 1")
        shown = [str(value) for value in counted]
    else:
        shown = [value.hex() for value in texts(reader, encoding, rows, kind == TEXT)]
    reader.end()
    return kind, shown, counted


def statistics(reader, rows):
    form = reader.u8()
    check(form <= 1, "a form of statistics that no device writes")
    if form == 0:
        return None
    least = reader.zigzag()
    distance, above, first, last = (reader.varint() for _ in range(4))
    return (least, least + distance, above + rows * least, least + first, least + last)


def text(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("a name that is not UTF-8") from error


def split_key(key):
    """Table and tags; a key that is not canonical is refused."""
    parts, part, names, at = [], "", [], 0
    while at < len(key):
        letter = key[at]
        if letter == "\\":
            check(at + 1 < len(key) and key[at + 1] in ",= \\", "an escape of nothing that needs one")
            part += key[at + 1]
            at += 2
            continue
        check(letter != " ", "a space without an escape")
        if letter in ",=":
            parts.append((part, letter))
            part = ""
        else:
            part += letter
        at += 1
    parts.append((part, ","))
    check(all(name for name, _ in parts), "an empty name or value")
    check([mark for _, mark in parts] == [","] + ["=", ","] * ((len(parts) - 1) // 2), "a key that is no list of tags")
    names = [name.encode() for name, _ in parts[1::2]]
    check(all(a < b for a, b in zip(names, names[1:])), "tags that are not in order")


def rows_of(data):
    """Every value of a page as a line, or why it is refused."""
    check(len(data) >= 64 and data[:4] == b"NMDP" and data[4] == 1, "no device page of version 1")
    flags, part, length, blocks, reserved = struct.unpack("<BHIHH", data[5:16])
    _, base, least, greatest, tick, boot, _ = struct.unpack("<QqqqIII", data[16:60])
    check(64 <= length <= 65536 and length <= len(data) and all(byte == 0xFF for byte in data[length:]), "another length")
    check(crc32c(data[: length - 4]) == struct.unpack("<I", data[length - 4 : length])[0], "the checksum does not hold")
    check(flags <= 1 and reserved == 0 and blocks > 0 and tick > 0, "a head that cannot be")
    reader = Reader(data[60 : length - 4])
    lines, ends = [], []
    for _ in range(blocks):
        key = text(reader.take(reader.varint()))
        split_key(key)
        rows, fields = reader.varint(), reader.varint()
        check(1 <= rows <= 1024 and 1 <= fields <= 16, "rows or fields that cannot be")
        first, distance = base + reader.zigzag(), reader.varint()
        kind, times, offsets = column(reader.take(struct.unpack("<H", reader.take(2))[0]))
        check(kind == I64 and len(times) == rows, "times of another type or of other rows")
        times = [base + offset for offset in offsets]
        check(times == sorted(times) and (times[0], times[-1]) == (first, first + distance), "times that are not those of the block")
        check(-(2**63) <= times[0] and times[-1] < 2**63, "times beyond 64 bits")
        ends += [times[0], times[-1]]
        for _ in range(fields):
            name = text(reader.take(reader.u8()))
            check(name != "", "a field without a name")
            kind, values, counted = column(reader.take(struct.unpack("<H", reader.take(2))[0]))
            check(len(values) == rows, "a field of other rows")
            said = statistics(reader, rows)
            if said is not None:
                check(counted is not None and max(map(abs, counted)) < 2**52, "statistics of what has none")
                right = (min(counted), max(counted), sum(counted), counted[0], counted[-1])
                check(said == right, "statistics of other values")
            lines += ["\t".join([key, name, str(time), value]) for time, value in zip(times, values)]
    reader.end()
    check((min(ends), max(ends)) == (least, greatest), "times that are not those of the head")
    return lines


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def table_of(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [table_of(byte) for byte in range(256)]


def main():
    read = refused = 0
    for path in sorted(HERE.glob("*.bin")):
        rows = path.with_suffix(".rows")
        try:
            lines = rows_of(path.read_bytes())
        except Refused as why:
            if rows.exists():
                sys.exit("%s is refused: %s" % (path.name, why))
            refused += 1
            continue
        if not rows.exists():
            sys.exit("%s is accepted, and breaks a rule: %s" % (path.name, path.with_suffix(".refused").read_text().strip()))
        expected = rows.read_text().split("\n")[:-1]
        if lines != expected:
            sys.exit("%s has other rows" % path.name)
        read += 1
    if read < 120 or refused < 100:
        sys.exit("only %d pages read and %d refused" % (read, refused))
    print("%d golden device pages read, %d refused" % (read, refused))


if __name__ == "__main__":
    main()
