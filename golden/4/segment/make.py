#!/usr/bin/env python3
"""Writes the golden segments of format 4: <name>.seg, and <name>.json with the rows a reader must find in it.

Packs the bytes from docs/format/segment.md and page.md alone, and shares nothing with the Rust code: what was there before is packed
as in format 3, by ../../3/segment/make.py, pages by ../../0/page/make.py. Run it only to add files: those of a released format never
change.
"""

import importlib.util
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("third", HERE / "../../3/segment/make.py")
third = importlib.util.module_from_spec(spec)
spec.loader.exec_module(third)
second, page, short, put = third.second, third.page, third.short, third.put
varint, block_lists, column, TABLE = second.varint, second.block_lists, second.column, second.TABLE
second.HERE = HERE


class File(second.File):
    def __init__(self, kind, flags):
        super().__init__(kind, flags)
        header = self.data[:8] + struct.pack("<H", 4) + self.data[10:40]
        self.data = header + struct.pack("<I", second.crc32c(header)) + bytes(20)


def lanes():
    """Two blocks with bytes of one length in lanes, one with nulls as positions, and text in lanes with nulls as a bitmap."""
    file = File(kind=0, flags=1)
    first = len(file.data)
    rows = [(series, 1000 * at, {}) for series in (3, 8) for at in range(40)]
    blocks = [(series, series, 40, 0, 39000) for series in (3, 8)]
    of_bytes, of_text = [], []
    for start in (0, 40):
        own = rows[start : start + 40]
        present = [start == 0 or at not in (5, 6, 39) for at in range(40)]
        # Characters, so that the values can stand in a JSON file.
        numbers = [(0x30303030 + (at * at + start) % 8, 0x4141 + 256 * (at % 4), 0x7E) for at in range(40)]
        kept = [row for row, is_there in zip(numbers, present) if is_there]
        widths = [4, -2, 1]
        encoded = [
            page.frame([row[0] for row in kept], 0x30303030, 3),
            page.raw([row[1] for row in kept]),
            page.const(0x7E),
        ]
        encoded = page.transposed((3, page.raw(widths)), encoded)
        of_bytes.append(put(file, short(encoded, None if start == 0 else [int(it) for it in present], sparse=True)))
        for row, value, is_there in zip(own, page.structures(widths, numbers), present):
            if is_there:
                row[2][1] = value.decode()
    for start in (0, 40):
        own = rows[start : start + 40]
        present = [at % 3 != 1 for at in range(40)]
        words = ["floor %02d" % ((7 * at + start) % 60) for at in range(40)]
        kept = [word.encode() for word, is_there in zip(words, present) if is_there]
        tens = [int.from_bytes(word[6:], "big") for word in kept]
        head = [int.from_bytes(kept[0][at : at + width], "big") for at, width in ((0, 4), (4, 2))]
        encoded = page.transposed((3, page.raw([4, 2, 2])), [page.const(head[0]), page.const(head[1]), page.delta(tens, -2000, 12)])
        of_text.append(put(file, short(encoded, [int(it) for it in present])))
        for row, word, is_there in zip(own, words, present):
            if is_there:
                row[2][2] = word
    end = len(file.data)
    directory = varint(TABLE) + varint(len(blocks)) + bytes([0]) + block_lists(blocks) + varint(2)
    directory += column(1, page.BYTES, of_bytes, False) + column(2, page.TEXT, of_text, False)
    file.groups.append(third.group_of(file, first, end, rows, blocks, directory, b""))
    file.end()
    return file, rows, []


if __name__ == "__main__":
    second.write("lanes", *lanes())
