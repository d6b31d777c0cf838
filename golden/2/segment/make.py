#!/usr/bin/env python3
"""Writes the golden segments of format 2: <name>.seg, and <name>.json with the rows a reader must find in it.

Packs the bytes from docs/format/segment.md and page.md alone, and shares nothing with the Rust code; pages are packed as those of
format 0 are, by ../../0/page/make.py. Run it only to add files: those of a released format never change.
"""

import importlib.util
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("page", HERE / "../../0/page/make.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)
varint, zigzag, chunk, const, frame, raw = page.varint, page.zigzag, page.chunk, page.const, page.frame, page.raw

UUID = bytes([7] * 16)
FILE_ID = 5
TABLE = 3
TIME, SERIES = 0, 2**32 - 1
HOUR = 3_600_000_000_000

TABLE_OF_CRC = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE_OF_CRC.append(n)


def crc32c(data, begun=0):
    crc = begun ^ (2**32 - 1)
    for byte in data:
        crc = crc >> 8 ^ TABLE_OF_CRC[(crc ^ byte) & 255]
    return crc ^ (2**32 - 1)


assert crc32c(b"123456789") == 0xE3069283


def bound(offset, data):
    """The checksum of bytes that start at `offset` of the file."""
    low, high = offset % 2**32, offset >> 32
    rotated = (high << 16 | high >> 16) % 2**32
    begun = crc32c(UUID + struct.pack("<Q", FILE_ID)) ^ low ^ rotated
    return struct.pack("<I", crc32c(data, begun))


def integers(values):
    """A chunk; how its numbers are encoded is the writer's to choose."""
    values = list(values)
    if not values:
        return b""
    if len(set(values)) == 1:
        return chunk(const(values[0]))
    return chunk(raw(values))


def page_of(physical_type, rows, encoded, present=None):
    encoding, body = encoded
    nulls = b"" if present is None else page.packed(present, 1)
    return struct.pack("<BBH", encoding, physical_type | (128 if nulls else 0), rows) + nulls + body


class File:
    def __init__(self, kind, flags):
        header = b"NILOSEG0" + struct.pack("<HHI", 2, 0, 0) + UUID + struct.pack("<Q", FILE_ID)
        self.data = header + struct.pack("<I", crc32c(header)) + bytes(20)
        self.kind, self.flags, self.groups = kind, flags, []

    def put(self, data):
        """Adds bytes and their checksum; returns where they start."""
        start = len(self.data)
        self.data += data + bound(start, data)
        return start

    def part(self, data):
        start = len(self.data)
        self.data += data
        return varint(len(data)) + (bound(start, data) if data else b"")

    def end(self):
        start = len(self.data)
        footer = bytes([self.kind, self.flags]) + varint(len(self.groups)) + b"".join(self.groups)
        tail = struct.pack("<QQQ", FILE_ID, start, len(footer)) + bound(start, footer)
        self.data += footer + tail + struct.pack("<I", crc32c(tail)) + b"NILOSEG0"


def block_lists(blocks):
    """Blocks as (first series, last series, rows, min time, max time)."""
    lists = [
        [b[0] for b in blocks],
        [b[1] - b[0] for b in blocks],
        [b[2] for b in blocks],
        [b[3] for b in blocks],
        [b[4] - b[3] for b in blocks],
    ]
    return b"".join(integers(values) for values in lists)


def column(number, physical_type, pages, is_explicit):
    """Pages as (start, length with its checksum); of a block without a page (end of the one before, 0)."""
    offset = pages[0][0]
    out = varint(number) + bytes([physical_type, 1 if is_explicit else 0]) + varint(offset)
    out += integers(length for _, length in pages)
    if is_explicit:
        end, gaps = offset, []
        for start, length in pages:
            gaps.append(start - end)
            end = start + length
        out += integers(gaps)
    return out


def places():
    """Three blocks: one series, several, one with nulls; pages of one field in backward order, rollups of one hour."""
    file = File(kind=0, flags=1)
    first = len(file.data)
    rows = [(5, 10 * HOUR + i, {1: 100 + i, 2: "word %d" % i}) for i in range(3)]
    rows += [(7, 20, {1: -1}), (7, 30, {1: 2**40}), (9, 5, {1: 7}), (9, 6, {1: 8})]
    rows += [(11, -9, {1: 1}), (11, 0, {}), (11, 4, {1: 3}), (11, 5, {1: -(2**63)})]
    blocks = [(5, 5, 3, 10 * HOUR, 10 * HOUR + 2), (7, 9, 4, 5, 30), (11, 11, 4, -9, 5)]
    ranges = [(0, 3), (3, 7), (7, 11)]
    series_page = page_of(page.I64, 4, frame([7, 7, 9, 9], 7, 2))
    series = file.put(series_page)
    after_series = series + len(series_page) + 4
    times = []
    for start, end in ranges:
        values = [row[1] for row in rows[start:end]]
        data = page_of(page.I64, end - start, raw(values))
        times.append((file.put(data), len(data) + 4))
    values = []
    for start, end in reversed(ranges):
        present = [row[2].get(1) for row in rows[start:end]]
        bits = None if None not in present else [0 if value is None else 1 for value in present]
        data = page_of(page.I64, end - start, raw([v for v in present if v is not None]), bits)
        values.insert(0, (file.put(data), len(data) + 4))
    words = [row[2][2].encode() for row in rows[:3]]
    text_page = page_of(page.TEXT, 3, page.plain(const(6), words))
    text = (file.put(text_page), len(text_page) + 4)
    end = len(file.data)
    none = (text[0] + text[1], 0)
    directory = varint(TABLE) + varint(3) + bytes([0]) + block_lists(blocks) + varint(4)
    directory += column(SERIES, page.I64, [(series, 0), (series, len(series_page) + 4), (after_series, 0)], False)
    directory += column(TIME, page.I64, times, False)
    directory += column(1, page.I64, values, True)
    directory += column(2, page.TEXT, [text, none, none], False)
    hours = [(5, 10, 3, 0, 2), (11, -1, 1, HOUR - 9, 0), (11, 0, 3, 0, 5)]
    keys = b"".join(integers(hour[at] for hour in hours) for at in range(5))
    # Nulls, first and last times, smallest, range, last above smallest, first above smallest, sums above count * smallest.
    low = [0 + 1 + 2, 0, (3 + 2**63) % 2**64]
    lists = [
        integers([0, 0, 1]),
        integers([0, 0, 4]),
        integers([0, 0, 0]),
        integers([100, 1, -(2**63)]),
        integers([2, 0, page.signed(3 + 2**63)]),
        integers([2, 0, 0]),
        bytes([0]) + integers([0, 0, page.signed(3 + 2**63)]),
        integers(page.signed(number) for number in low),
        integers([0, 0, 0]),
    ]
    packed = b"".join(varint(len(one)) for one in lists) + b"".join(lists)
    rollups = varint(len(hours)) + varint(len(keys)) + keys
    rollups += varint(1) + varint(1) + bytes([page.I64]) + varint(len(packed)) + packed
    group = varint(TABLE) + zigzag(0) + varint(5) + varint(11) + zigzag(-9) + zigzag(10 * HOUR + 2)
    group += varint(len(rows)) + bytes([0]) + varint(first) + varint(end - first)
    group += file.part(directory) + file.part(b"") + file.part(rollups)
    file.groups.append(group)
    file.end()
    return file, rows, hours


def large():
    """Four rows of bytes; two values stand outside of their page, one as it is and one as a zstd frame."""
    file = File(kind=0, flags=1)
    first = len(file.data)
    whole = "".join(chr(33 + i * 37 % 90) for i in range(300)).encode()
    repeated = b"N" * 300
    values = [whole, b"short", None, repeated]
    rows = [(4, 100 + i, {} if value is None else {6: value.decode()}) for i, value in enumerate(values)]
    data = page_of(page.I64, 4, page.stride(100, 1))
    times = (file.put(data), len(data) + 4)
    inside = [whole[:16], b"short", repeated[:16]]
    data = page_of(page.BYTES, 4, page.plain(raw([len(value) for value in inside]), inside), [1, 1, 0, 1])
    field = (file.put(data), len(data) + 4)
    # One block that repeats one byte, of a size that the frame's header says (less 256).
    frame = b"\x28\xb5\x2f\xfd\x60" + struct.pack("<H", len(repeated) - 256)
    frame += struct.pack("<I", 1 | 1 << 1 | len(repeated) << 3)[:3] + b"N"
    outside = [(0, whole, len(whole)), (3, frame, len(repeated))]
    places = [file.put(stored) - first for _, stored, _ in outside]
    end = len(file.data)
    directory = varint(TABLE) + varint(1) + bytes([0]) + block_lists([(4, 4, 4, 100, 103)]) + varint(2)
    directory += column(TIME, page.I64, [times], False) + column(6, page.BYTES, [field], False)
    values = varint(2) + integers([6, 6]) + integers([0, 0]) + integers([row for row, _, _ in outside])
    values += integers(places) + integers([len(stored) for _, stored, _ in outside])
    values += integers([size for _, _, size in outside])
    group = varint(TABLE) + zigzag(0) + varint(4) + varint(4) + zigzag(100) + zigzag(103)
    group += varint(len(rows)) + bytes([2]) + varint(first) + varint(end - first)
    group += file.part(directory) + file.part(b"") + file.part(b"") + file.part(values)
    file.groups.append(group)
    file.end()
    return file, rows, []


def write(name, file, rows, hours):
    (HERE / (name + ".seg")).write_bytes(file.data)
    rows = [[series, time, {str(key): str(value) for key, value in values.items()}] for series, time, values in rows]
    lines = ",\n".join(json.dumps(row) for row in rows)
    hours = ",\n".join(json.dumps(list(hour[:3])) for hour in hours)
    (HERE / (name + ".json")).write_text('{"rows": [\n%s\n],\n"hours": [\n%s\n]}\n' % (lines, hours))


if __name__ == "__main__":
    write("places", *places())
    write("large", *large())
