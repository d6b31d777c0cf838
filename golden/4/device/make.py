#!/usr/bin/env python3
"""Writes the golden segment of a device's pages: pages.seg, pages.json with the rows a reader must find, pages.units with where its units are.

Packs the container from docs/format/segment.md alone, as ../segment/make.py does; the units are golden pages of ../../device-1 as they are, and the rows are
those that stand beside them there. Run it only to add files: those of a released format never change.
"""

import importlib.util
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
PAGES = HERE / "../../device-1"
spec = importlib.util.spec_from_file_location("fourth", HERE / "../segment/make.py")
fourth = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fourth)
second, page = fourth.second, fourth.page
varint, zigzag, integers = second.varint, second.zigzag, second.integers
HOUR = 3_600_000_000_000

# A page, the time of its tick 0, whether that is a guess, the bytes of its flash page.
UNITS = [
    ("one_series", 0, False, 256),
    ("several_series_and_types", HOUR, False, 512),
    ("ticks_of_a_boot", 1_700_000_000 * 10**9, True, 128),
    ("blocked", 0, False, 320),
]
# The store's table, and its series, of each key; its columns.
SERIES = {"climate,room=attic,sensor=7": (3, 20), "door": (4, 4), "m": (6, 9), "m,a=b": (6, 2)}
COLUMNS = {"temperature": 1, "humidity": 2, "n": 1, "open": 2, "by": 3, "raw": 4, "v": 1}


class Bytes:
    def __init__(self, data, at):
        self.data, self.at = data, at

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def page(self):
        length = struct.unpack("<H", self.take(2))[0]
        return self.at, length, self.take(length)[1]


def blocks_of(data):
    """The blocks of a page: key, rows, base, first and last tick, the page of times, the fields' names and pages (place, length, type)."""
    base, blocks, source = struct.unpack("<q", data[24:32])[0], struct.unpack("<H", data[12:14])[0], Bytes(data, 60)
    for _ in range(blocks):
        key = source.take(source.varint()).decode()
        rows, fields = source.varint(), source.varint()
        least = base + source.zigzag()
        greatest = least + source.varint()
        times, named = source.page(), []
        for _ in range(fields):
            name = source.take(source.take(1)[0]).decode()
            named.append((name, source.page()))
            if source.take(1)[0]:
                source.zigzag()
                [source.varint() for _ in range(4)]
        yield key, rows, base, least, greatest, times, named


def main():
    file = fourth.File(kind=2, flags=0)
    first, units, keys, tables, rows = len(file.data), [], [], {}, []
    for number, (name, start, is_guess, bytes_of_page) in enumerate(UNITS):
        data = (PAGES / (name + ".bin")).read_bytes()
        at, tick = len(file.data), struct.unpack("<I", data[48:52])[0]
        units.append((at, bytes_of_page, struct.unpack("<I", data[-4:])[0]))
        file.data += data + b"\xff" * (bytes_of_page - len(data))
        values = [line.split("\t") for line in (PAGES / (name + ".rows")).read_text().splitlines()]
        for key, count, base, least, greatest, times, fields in blocks_of(data):
            if key not in keys:
                keys.append(key)
            table, series = SERIES[key]
            pages = [(second.TIME, page.I64, at + times[0], times[1])]
            pages += [(COLUMNS[name], it[2], at + it[0], it[1]) for name, it in fields]
            span = (least * tick + start, greatest * tick + start)
            clock = (1 if is_guess else 0, tick, base * tick + start)
            tables.setdefault(table, []).append((series, span, count, keys.index(key), clock, number, pages))
            own = [line for line in values if line[0] == key]
            columns = [[line for line in own if line[1] == name] for name, _ in fields]
            rows += [(table, series, int(of_row[0][2]) * tick + start, {COLUMNS[it[1]]: it[3] for it in of_row}) for of_row in zip(*columns)]
    place = (first, len(file.data) - first)
    for table, blocks in sorted(tables.items()):
        blocks.sort()
        file.groups.append(group_of(file, table, blocks, units, place))
        place = (len(file.data), 0)
    file.end()
    (HERE / "pages.seg").write_bytes(file.data)
    rows.sort(key=lambda row: row[:3])
    lines = ",\n".join(json.dumps([table, series, time, {str(key): value for key, value in values.items()}]) for table, series, time, values in rows)
    (HERE / "pages.json").write_text('{"rows": [\n%s\n]}\n' % lines)
    (HERE / "pages.units").write_text("".join("%d %d %s\n" % (at, length, name) for (at, length, _), (name, *_) in zip(units, UNITS)))


def group_of(file, table, blocks, units, place):
    own = [units[number] for number in sorted({block[5] for block in blocks})]
    series = sorted({(block[3], block[0]) for block in blocks})
    lists = [(block[3], block[3], block[2], *block[1]) for block in blocks]
    directory = varint(table) + varint(len(blocks)) + bytes([7]) + second.block_lists(lists)
    directory += b"".join(integers(block[4][at] for block in blocks) for at in range(3))
    directory += varint(len(own)) + b"".join(integers(unit[at] for unit in own) for at in range(3))
    directory += varint(len(series)) + b"".join(integers(it[at] for it in series) for at in range(2))
    columns = sorted({(it[0], it[1]) for block in blocks for it in block[6]})
    directory += varint(len(columns))
    for number, physical_type in columns:
        end, places = None, []
        for block in blocks:
            found = [(it[2], it[3]) for it in block[6] if it[:2] == (number, physical_type)]
            places.append(found[0] if found else (end, 0))
            end = sum(places[-1])
        directory += second.column(number, physical_type, places, True)
    all_times = [time for block in blocks for time in block[1]]
    group = varint(table) + zigzag(min(all_times)) + varint(min(it[0] for it in blocks)) + varint(max(it[0] for it in blocks))
    group += zigzag(min(all_times)) + zigzag(max(all_times)) + varint(sum(block[2] for block in blocks))
    # A door was opened twice at one time.
    group += bytes([1 if table == 4 else 0]) + varint(place[0]) + varint(place[1])
    return group + file.part(directory) + file.part(b"") + file.part(b"")


if __name__ == "__main__":
    main()
