#!/usr/bin/env python3
"""Writes the golden segments of format 3: <name>.seg, and <name>.json with the rows a reader must find in it.

Packs the bytes from docs/format/segment.md and page.md alone, and shares nothing with the Rust code: checksums, parts and lists are
packed as those of format 2 are, by ../../2/segment/make.py, pages by ../../0/page/make.py. Run it only to add files: those of a
released format never change.
"""

import importlib.util
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("second", HERE / "../../2/segment/make.py")
second = importlib.util.module_from_spec(spec)
spec.loader.exec_module(second)
page = second.page
varint, zigzag, integers, block_lists, column = page.varint, page.zigzag, second.integers, second.block_lists, second.column
TABLE, TIME, SERIES, HOUR = second.TABLE, second.TIME, second.SERIES, second.HOUR
second.HERE = HERE


class File(second.File):
    def __init__(self, kind, flags):
        super().__init__(kind, flags)
        header = self.data[:8] + struct.pack("<H", 3) + self.data[10:40]
        self.data = header + struct.pack("<I", second.crc32c(header)) + bytes(20)


def short(encoded, present=None, sparse=False):
    """A page in short: its encoding, whether nulls follow, and whether as positions."""
    encoding, body = encoded
    if present is None:
        return bytes([encoding]) + body
    if not sparse:
        return bytes([encoding | 128]) + page.packed(present, 1) + body
    nulls = [at for at, is_there in enumerate(present) if not is_there]
    packed = page.packed(nulls, page.bits(len(present) - 1))
    return bytes([encoding | 128 | 64]) + varint(len(nulls)) + packed + body


def put(file, data):
    return file.put(data), len(data) + 4


def sharing(number, physical_type, pages, header):
    """A column whose pages follow each other and share a header."""
    out = varint(number) + bytes([physical_type, 2]) + varint(pages[0][0])
    return out + integers(length for _, length in pages) + varint(len(header)) + header


def group_of(file, first, end, rows, blocks, directory, rollups):
    series = [row[0] for row in rows]
    times = [row[1] for row in rows]
    group = varint(TABLE) + zigzag(0) + varint(min(series)) + varint(max(series)) + zigzag(min(times)) + zigzag(max(times))
    group += varint(len(rows)) + bytes([0]) + varint(first) + varint(end - first)
    return group + file.part(directory) + file.part(b"") + file.part(rollups)


def even():
    """Blocks of even times, which have no page of them: ascending, one row, one time for all rows, times far apart; one whose
    times are uneven, and one of several series, have a page. Integers of 16 bits in pco, nulls as positions and as
    bitmaps, text."""
    file = File(kind=0, flags=1)
    first = len(file.data)
    times = [
        (4, [100, 107, 114, 121]),
        (5, [2**40]),
        (6, [33, 33, 33]),
        (8, [-(2**61), 0, 2**61]),
        (9, [10, 20, 31]),
    ]
    rows, blocks, ranges = [], [], []
    for series, own in times:
        ranges.append((len(rows), len(rows) + len(own)))
        blocks.append((series, series, len(own), min(own), max(own)))
        rows += [(series, time, {}) for time in own]
    shared = [(11, 5), (11, 6), (12, -4), (12, 6)]
    ranges.append((len(rows), len(rows) + len(shared)))
    blocks.append((11, 12, 4, -4, 6))
    rows += [(series, time, {}) for series, time in shared]
    numbers = [(at * 37) % 50 - 20 for at in range(len(rows))]
    for at, (row, number) in enumerate(zip(rows, numbers)):
        if at not in (1, 2, 9):
            row[2][1] = number
        if at < 4:
            row[2][2] = "text %d" % (at % 2)
    series_page = put(file, short(page.frame([11, 11, 12, 12], 11, 1)))
    of_series = [(first, 0)] * 5 + [series_page]
    after = series_page[0] + series_page[1]
    uneven = put(file, short(page.raw([10, 20, 31])))
    mixed = put(file, short(page.raw([time for _, time in shared])))
    of_times = [(after, 0)] * 4 + [uneven, mixed]
    lower, width = 2**15 - 20, 6
    of_numbers = []
    for start, end in ranges:
        present = [row[2].get(1) for row in rows[start:end]]
        bits = None if None not in present else [0 if value is None else 1 for value in present]
        values = [value for value in present if value is not None]
        sparse = len(of_numbers) == 0
        of_numbers.append(put(file, short(page.pco_page(values, 0, lower, width, 16), bits, sparse)))
    words = [row[2][2].encode() for row in rows[:4]]
    text = put(file, short(page.plain(page.const(6), words)))
    end = len(file.data)
    none = (text[0] + text[1], 0)
    directory = varint(TABLE) + varint(len(blocks)) + bytes([0]) + block_lists(blocks) + varint(4)
    directory += column(SERIES, page.I64, of_series, False)
    directory += column(TIME, page.I64, of_times, False)
    directory += sharing(1, page.I64, of_numbers, bytes([8]) + page.pco_header(0, lower, width, 16))
    directory += column(2, page.TEXT, [text] + [none] * 5, False)
    file.groups.append(group_of(file, first, end, rows, blocks, directory, b""))
    file.end()
    return file, rows, []


def no_times():
    """Times are even in every block: no page of them at all, and the column is not listed. Rollups of one hour."""
    file = File(kind=0, flags=1)
    first = len(file.data)
    rows = [(7, 3 * HOUR + 10 * at, {1: 40 + at % 3}) for at in range(5)]
    values = put(file, short(page.raw([row[2][1] for row in rows])))
    end = len(file.data)
    blocks = [(7, 7, 5, 3 * HOUR, 3 * HOUR + 40)]
    directory = varint(TABLE) + varint(1) + bytes([0]) + block_lists(blocks) + varint(1)
    directory += column(1, page.I64, [values], False)
    hours = [(7, 3, 5, 0, 40)]
    keys = b"".join(integers(hour[at] for hour in hours) for at in range(5))
    above = sum(row[2][1] - 40 for row in rows)
    numbers = [[0], [0], [0], [40], [2], [rows[-1][2][1] - 40], [0], [above], [0]]
    lists = [(bytes([0]) if at == 6 else b"") + integers(own) for at, own in enumerate(numbers)]
    packed = b"".join(varint(len(one)) for one in lists) + b"".join(lists)
    rollups = varint(1) + varint(len(keys)) + keys
    rollups += varint(1) + varint(1) + bytes([page.I64]) + varint(len(packed)) + packed
    file.groups.append(group_of(file, first, end, rows, blocks, directory, rollups))
    file.end()
    return file, rows, hours


if __name__ == "__main__":
    second.write("even", *even())
    second.write("no_times", *no_times())
