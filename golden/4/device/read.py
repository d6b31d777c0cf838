#!/usr/bin/env python3
"""Reads the golden segment of a device's pages, and compares its rows with pages.json: a reader beside the one in Rust.

Reads the container from docs/format/segment.md, the units with ../../device-1/read.py. Shares nothing with the packers and with the Rust code. Every checksum is
checked, and each page that the directory lists must be one that its unit has.
"""

import importlib.util
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("units", HERE / "../../device-1/read.py")
units = importlib.util.module_from_spec(spec)
spec.loader.exec_module(units)
check, Reader = units.check, units.Reader
TIME = 0


def continued(begun, data):
    """A CRC32C that begins from another."""
    crc = begun ^ 0xFFFFFFFF
    for byte in data:
        crc = units.TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Segment:
    def __init__(self, data):
        self.data = data
        magic, number = data[:8], struct.unpack("<H", data[8:10])[0]
        check(magic == b"NILOSEG0" and number == 4, "no segment of format 4")
        check(units.crc32c(data[:40]) == struct.unpack("<I", data[40:44])[0], "the header's checksum does not hold")
        self.file = units.crc32c(data[16:40])
        tail = data[-40:]
        check(units.crc32c(tail[:28]) == struct.unpack("<I", tail[28:32])[0] and tail[32:] == magic, "the tail's checksum does not hold")
        _, offset, length, crc = struct.unpack("<QQQI", tail[:28])
        self.footer = self.bound(offset, length, crc)

    def bound(self, offset, length, crc):
        low, high = offset % 2**32, offset >> 32
        part = self.data[offset : offset + length]
        check(len(part) == length, "a part outside of the file")
        check(continued(self.file ^ low ^ (high << 16 | high >> 16) % 2**32, part) == crc, "a checksum at %d does not hold" % offset)
        return part

    def rows(self):
        footer = Reader(self.footer)
        check((footer.u8(), footer.u8()) == (2, 0), "not a file of device pages")
        rows = []
        for _ in range(footer.varint()):
            table, _, _, _ = footer.varint(), footer.zigzag(), footer.varint(), footer.varint()
            _, _, count, flags = footer.zigzag(), footer.zigzag(), footer.varint(), footer.u8()
            check(flags <= 1, "flags of a group")
            end = footer.varint() + footer.varint()
            length = footer.varint()
            directory = self.bound(end, length, struct.unpack("<I", footer.take(4))[0])
            check((footer.varint(), footer.varint()) == (0, 0), "statistics or rollups")
            own = self.group(table, Reader(directory))
            check(len(own) == count, "another number of rows")
            rows += own
        footer.end()
        return rows

    def group(self, table, directory):
        numbers = lambda n: units.integers(directory, directory.u8(), n)
        check(directory.varint() == table, "a directory of another table")
        n = directory.varint()
        check(directory.u8() == 7, "a directory without clocks, units and series")
        first, spans, counts, least, lasting = (numbers(n) for _ in range(5))
        check(set(spans) == {0}, "a block of several series")
        guesses, steps, shifts = (numbers(n) for _ in range(3))
        check(set(guesses) <= {0, 1} and min(steps) >= 1, "a clock that cannot be")
        count = directory.varint()
        places, lengths, sums = (numbers(count) for _ in range(3))
        for at, length, crc in zip(places, lengths, sums):
            page = self.data[at : at + length]
            units.rows_of(page)
            end = struct.unpack("<I", page[8:12])[0]
            check(struct.unpack("<I", page[end - 4 : end])[0] == crc, "another unit than the directory says")
        count = directory.varint()
        series = dict(zip(numbers(count), numbers(count)))
        columns = {}
        for _ in range(directory.varint()):
            number, kind, flags, offset = directory.varint(), directory.u8(), directory.u8(), directory.varint()
            check(flags == 1, "a column without places of its own")
            sizes, gaps = numbers(n), numbers(n)
            end = offset
            for block, (size, gap) in enumerate(zip(sizes, gaps)):
                start, end = end + gap, end + gap + size
                if size:
                    check(any(at <= start and end <= at + length for at, length in zip(places, lengths)), "a page outside of the units")
                    found, shown, _ = units.column(self.data[start:end])
                    check(found == kind and len(shown) == counts[block], "a page of another type or of other rows")
                    columns[block, number] = shown
        directory.end()
        rows = []
        for block in range(n):
            times = [int(own) * steps[block] + shifts[block] for own in columns[block, TIME]]
            check((times[0], times[-1]) == (least[block], least[block] + lasting[block]), "times that are not those of the directory")
            fields = {str(number): shown for (of_block, number), shown in columns.items() if of_block == block and number != TIME}
            rows += [[table, series[first[block]], time, {name: shown[row] for name, shown in fields.items()}] for row, time in enumerate(times)]
        return rows


def main():
    rows = Segment((HERE / "pages.seg").read_bytes()).rows()
    expected = json.loads((HERE / "pages.json").read_text())["rows"]
    if rows != expected:
        sys.exit("pages.seg has other rows: %s" % next((pair for pair in zip(rows, expected) if pair[0] != pair[1]), len(rows)))
    print("%d rows of device pages read from a segment" % len(rows))


if __name__ == "__main__":
    main()
