#!/usr/bin/env python3
"""Writes golden device pages of version 1: <name>.bin, and <name>.rows with what a reader must find, or <name>.refused with why it must not.

Packs the bytes from docs/format/device-page.md, with the packers of column pages in ../0/page/make.py, and shares nothing with the C and
Rust code. Run it only to add pages: those of a released version never change. The pages `written_*` were written by the C library,
with the rows that its test put in.

A line of .rows is a value: key, field, time in ticks, and the value: integers as they are, floats as their 64 bits in hexadecimal,
booleans 0 or 1, text and bytes as theirs in hexadecimal; in the order of blocks, fields and rows.
"""

import importlib.util
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("columns", HERE.parent / "0" / "page" / "make.py")
columns = importlib.util.module_from_spec(spec)
spec.loader.exec_module(columns)
I64, U64, F64, BOOL, TEXT, BYTES = range(6)
frame, const, stride, zigzag, varint, float_bits = columns.frame, columns.const, columns.stride, columns.zigzag, columns.varint, columns.float_bits


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def column(physical_type, rows, encoded):
    encoding, body = encoded
    return bytes([encoding, physical_type]) + struct.pack("<H", rows) + body


def statistics(integers):
    low = min(integers)
    out = b"\x01" + zigzag(low) + varint(max(integers) - low) + varint(sum(integers) - len(integers) * low)
    return out + varint(integers[0] - low) + varint(integers[-1] - low)


def field(name, physical_type, values, encoded, integers=None):
    """`integers` are what statistics are made of, if there are any."""
    page = column(physical_type, len(values), encoded)
    name = name.encode()
    body = bytes([len(name)]) + name + struct.pack("<H", len(page)) + page
    return (name.decode(), physical_type, values, body + (statistics(integers) if integers else b"\x00"))


def best_times(offsets):
    steps = {b - a for a, b in zip(offsets, offsets[1:])}
    if len(offsets) == 1:
        return const(offsets[0])
    if len(steps) == 1:
        return stride(offsets[0], steps.pop())
    return frame(offsets, min(offsets), columns.bits(max(offsets) - min(offsets)))


def block(key, times, fields):
    return key, times, fields


def block_bytes(it, base, rows=None):
    key, times, fields = it
    offsets = [t - base for t in times]
    page = column(I64, len(times), best_times(offsets))
    out = varint(len(key.encode())) + key.encode() + varint(rows or len(times)) + varint(len(fields))
    out += zigzag(times[0] - base) + varint(times[-1] - times[0]) + struct.pack("<H", len(page)) + page
    return out + b"".join(f[3] for f in fields)


def page(blocks, sequence=1, base=None, part=0, flags=1, tick=10**6, boot=0, source=1, times=None, version=1, reserved=0, body=None):
    base = blocks[0][1][0] if base is None else base
    times = times or (min(b[1][0] for b in blocks), max(b[1][-1] for b in blocks))
    body = b"".join(block_bytes(b, base) for b in blocks) if body is None else body
    head = b"NMDP" + struct.pack("<BBHIHH", version, flags, part, 60 + len(body) + 4, len(blocks), reserved)
    head += struct.pack("<QqqqIII", sequence, base, times[0], times[1], tick, boot, source)
    assert len(head) == 60
    return head + body + struct.pack("<I", crc32c(head + body))


def shown(physical_type, value):
    if physical_type == F64:
        return "%016x" % value
    if physical_type in (TEXT, BYTES):
        return (value.encode() if isinstance(value, str) else value).hex()
    return str(int(value))


def write(name, blocks, **options):
    (HERE / (name + ".bin")).write_bytes(page(blocks, **options))
    lines = [
        "\t".join([key, f[0], str(time), shown(f[1], value)])
        for key, times, fields in blocks
        for f in fields
        for time, value in zip(times, f[2])
    ]
    (HERE / (name + ".rows")).write_text("".join(line + "\n" for line in lines))


def refuse(name, why, data):
    (HERE / (name + ".bin")).write_bytes(data)
    (HERE / (name + ".refused")).write_text(why + "\n")


def sealed(data):
    """The same bytes with a checksum that holds."""
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


T = 1_700_000_000_000


def main():
    sixteenths = [340 + (i * i) % 32 for i in range(40)]
    temperature = field("temperature", F64, [float_bits(x / 16) for x in sixteenths], columns.dyadic(4, (40, frame(sixteenths, min(sixteenths), 5)), []), sixteenths)
    hundredths = [2000 + (i * 37) % 64 for i in range(40)]
    humidity = field("humidity", F64, [float_bits(x / 100) for x in hundredths], columns.decimal(2, (40, frame(hundredths, min(hundredths), 6)), []), hundredths)
    times = [T + 10_000 * i for i in range(40)]
    climate = block("climate,room=attic,sensor=7", times, [temperature, humidity])
    write("one_series", [climate])

    counts = [5 * i - 3 for i in range(4)]
    door = block("door", [T + 5, T + 5, T + 9, T + 800], [
        field("n", I64, counts, stride(-3, 5), counts),
        field("open", BOOL, [1, 0, 0, 1], columns.bitmap([1, 0, 0, 1]), [1, 0, 0, 1]),
        field("by", TEXT, ["Nile", "", "\u6c34", "a b"], columns.plain(frame([4, 0, 3, 3], 0, 3), [b"Nile", "\u6c34".encode(), b"a b"])),
        field("raw", BYTES, [b"\xff\x00", b"", b"\x01", b"\x80"], columns.plain(frame([2, 0, 1, 1], 0, 2), [b"\xff\x00", b"\x01", b"\x80"])),
    ])
    write("several_series_and_types", [climate, door], sequence=7, base=T - 1000)
    write("part_of_a_seal", [door], sequence=9, part=2, flags=0, source=5)
    write("escaped_names", [block("a\\,b\\ c,d\\=e=f\\\\,g=\u00e9", [T], [field("x y", I64, [1], const(1), [1])])])
    write("ticks_of_a_boot", [block("m", [12, 40], [field("v", I64, [2**63 - 1, -(2**63)], columns.raw([2**63 - 1, -(2**63)]))])], boot=3, tick=1000)
    odd = [0x7FF8_0000_0000_1234, 1 << 63, 1, 0x7FF0 << 48]
    raw = columns.raw([columns.signed(b) for b in odd])
    write("floats_of_all_kinds", [block("m", [-5, -4, 0, 2**40], [field("v", F64, odd, raw)])], tick=1)
    unsigned = [2**64 - 1, 0, 3]
    write("unsigned", [block("m", [1, 2, 3], [field("v", U64, unsigned, columns.raw([-1, 0, 3]))])])
    noise = [(i * 2654435761 % 2**32) >> (28 if i // 32 % 2 else 10) for i in range(80)]
    parts = [noise[i : i + 32] for i in range(0, 80, 32)]
    widths = [columns.bits(max(p) - min(p)) for p in parts]
    bases = [min(p) for p in parts]
    blocked = columns.blocked(0, noise, (widths, columns.raw(widths)), (bases, columns.raw(bases)))
    write("blocked", [block("m,a=b", list(range(80)), [field("v", I64, noise, blocked, noise)])])

    good = page([door])
    refuse("refused_version", "version", page([door], version=2))
    refuse("refused_magic", "magic", sealed(b"NMDQ" + good[4:]))
    refuse("refused_checksum", "checksum", good[:-1] + bytes([good[-1] ^ 1]))
    refuse("refused_flags", "unknown flag", page([door], flags=2))
    refuse("refused_reserved", "reserved bytes", page([door], reserved=1))
    refuse("refused_tick", "a unit of time of nothing", page([door], tick=0))
    refuse("refused_times", "times that are not those of the blocks", page([door], times=(T, T + 800)))
    refuse("refused_short", "the end is missing", good[:-3])
    refuse("refused_behind", "bytes behind the page", good + b"\x00")
    body = block_bytes(door, T + 5)
    refuse("refused_body_longer", "bytes behind the last block", page([door], body=body + b"\x00"))
    refuse("refused_body_shorter", "a block that is cut", page([door], body=body[:-1]))
    refuse("refused_rows", "more rows than its pages have", page([door], body=block_bytes(door, T + 5, rows=5)))
    refuse("refused_no_rows", "no rows", page([block("m", [1], [])], body=b"\x01m\x00\x01" + b"\x00" * 40))
    wrong = field("n", I64, counts, stride(-3, 5), [c + 1 for c in counts])
    refuse("refused_statistics", "statistics of other values", page([block("door", door[1], [wrong])]))
    backwards = (block("m", [5, 3], [field("v", I64, [1, 2], stride(1, 1), [1, 2])]),)
    late = varint(1) + b"m" + varint(2) + varint(1) + zigzag(0) + varint(0) + struct.pack("<H", 6) + column(I64, 2, stride(0, -2)) + backwards[0][2][0][3]
    refuse("refused_order", "times that are not in order", page(list(backwards), base=5, times=(5, 5), body=late))
    single = field("v", I64, [1], const(1), [1])
    for name, key in [("tags_in_another_order", "m,b=1,a=2"), ("tag_twice", "m,a=1,a=2"), ("no_value", "m,a="), ("no_equals", "m,a"), ("no_table", ",a=b"), ("space", "m n"), ("half_an_escape", "m\\"), ("needless_escape", "\\m")]:
        refuse("refused_key_" + name, "a key that is not canonical", page([block(key, [1], [single])]))
    refuse("refused_utf8", "a key that is not UTF-8", page([block("m", [1], [single])], body=block_bytes(block("m", [1], [single]), 1).replace(b"\x01m", b"\x01\xff", 1)))
    refuse("refused_field_without_name", "a field without a name", page([block("m", [1], [field("", I64, [1], const(1), [1])])]))
    nulls = bytes([0, 0x80 | I64]) + struct.pack("<H", 1) + b"\x01" + zigzag(1)
    refuse("refused_nulls", "a null bitmap", page([block("m", [1], [("v", I64, [1], b"\x01v" + struct.pack("<H", len(nulls)) + nulls + b"\x00")])]))
    zstd = column(TEXT, 2, columns.stored_zstd(columns.plain(const(2), [b"ab", b"cd"])))
    refuse("refused_zstd", "text in zstd", page([block("m", [1, 2], [("v", TEXT, [], b"\x01v" + struct.pack("<H", len(zstd)) + zstd + b"\x00")])]))
    far = page([block("m", [2**63 - 2, 2**63 - 1], [field("v", I64, [1, 2], stride(1, 1), [1, 2])])])
    (HERE / "latest_times.bin").write_bytes(far)
    (HERE / "latest_times.rows").write_text("m\tv\t%d\t1\nm\tv\t%d\t2\n" % (2**63 - 2, 2**63 - 1))
    refuse("refused_time_beyond", "times beyond 64 bits", page([block("m", [5], [single])], body=b"\x01m\x01\x01" + zigzag(2**63 - 1) + varint(9) + struct.pack("<H", 5) + column(I64, 1, const(0)) + single[3], base=5, times=(5, 5)))


if __name__ == "__main__":
    main()
