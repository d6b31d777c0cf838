#!/usr/bin/env python3
"""Writes the numbered golden device pages: `v_*` of every shape that a device writes, `refused_v_*` that break one rule each.

Packs the bytes from docs/format/device-page.md with the packers of make.py; what is drawn comes from a generator of its own, so that every run
makes the same files. `vectors.py` writes them, `vectors.py --check` compares them with what is here, as a run must never change
a page of a released version.
"""

import importlib.util
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("make", HERE / "make.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)
columns = make.columns
I64, U64, F64, BOOL, TEXT, BYTES = range(6)
zigzag, varint, block, block_bytes, page, column = make.zigzag, make.varint, make.block, make.block_bytes, make.page, make.column
signed, float_bits = columns.signed, columns.float_bits
files = {}

PAGE_BYTES_MAX = 8000


class Draw:
    """Numbers that are the same everywhere: the generator of PCG's state, its high bits."""

    def __init__(self, seed):
        self.state = seed * 2 + 1

    def bits(self, count):
        out = 0
        for _ in range(0, count, 16):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
            out = out << 16 | self.state >> 48
        return out >> -count % 16

    def below(self, bound):
        return self.bits(64) % bound

    def one_of(self, items):
        return items[self.below(len(items))]


# ---- pages that a device writes ----


def blocked_of(values, order):
    numbers = [signed(b - a) for a, b in zip(values, values[1:])] if order else values
    parts = [numbers[i : i + 32] for i in range(0, len(numbers), 32)]
    bases = [min(part) for part in parts]
    widths = [columns.bits(max(part) - min(part)) for part in parts]
    return columns.blocked(order, values, (widths, columns.raw(widths)), (bases, columns.raw(bases)))


def encodings_of(values, draw):
    """Every encoding of a device that these integers have, by name."""
    low, high = min(values), max(values)
    steps = [signed(b - a) for a, b in zip(values, values[1:])]
    span = columns.bits(high - low)
    known = {"raw": columns.raw(values), "frame": columns.frame(values, low, span)}
    if low == high:
        known["const"] = columns.const(low)
    if len(values) > 1:
        if len(set(steps)) == 1:
            known["stride"] = columns.stride(values[0], steps[0])
        known["delta"] = columns.delta(values, min(steps), columns.bits(max(steps) - min(steps)))
        if max(columns.bits(signed(x - min(steps)) % 2**64) for x in steps) <= 64:
            known["blocked_1"] = blocked_of(values, 1)
    known["blocked_0"] = blocked_of(values, 0)
    if span > 2:
        known["patches"] = columns.frame(values, low, span - 1 - draw.below(span - 1))
    return known


def integers(draw, rows):
    kind = draw.below(6)
    if kind == 0:
        return [signed(draw.bits(64))] * rows
    if kind == 1:
        first, step = draw.bits(40) - 2**39, draw.bits(20) - 2**19
        return [first + i * step for i in range(rows)]
    if kind == 2:
        return [signed(draw.bits(64)) for _ in range(rows)]
    if kind == 3:
        values = [draw.bits(30)]
        for _ in range(rows - 1):
            values.append(values[-1] + draw.bits(6) - 32)
        return values
    width = 1 + draw.below(51)
    base = draw.bits(50) - 2**49
    return [base + (draw.bits(width) if kind == 4 or i // 32 % 2 else draw.bits(3)) for i in range(rows)]


def with_statistics(values, draw):
    return values if max(map(abs, values)) < 2**52 and draw.below(5) else None


def integer_field(draw, name, rows, physical_type):
    values = integers(draw, rows)
    encoding = draw.one_of(sorted(encodings_of(values, draw).items()))[1]
    shown = [v % 2**64 for v in values] if physical_type == U64 else values
    return make.field(name, physical_type, shown, encoding, with_statistics(values, draw))


def bool_field(draw, name, rows):
    values = [draw.bits(1) for _ in range(rows)] if draw.below(3) else [draw.bits(1)] * rows
    encoding = columns.bitmap(values) if draw.below(3) else draw.one_of(sorted(encodings_of(values, draw).items()))[1]
    return make.field(name, BOOL, values, encoding, values if draw.below(5) else None)


def float_field(draw, name, rows):
    kind = draw.below(4)
    if kind == 0:
        values = [draw.bits(64) for _ in range(rows)]
        return make.field(name, F64, values, columns.raw([signed(v) for v in values]))
    if kind == 1:
        shift = draw.below(40)
        values = [draw.bits(64) >> shift << shift for _ in range(rows)]
        # Shifts keep the sign.
        return make.field(name, F64, values, columns.image(shift, columns.raw([signed(v) >> shift for v in values])))
    scale = draw.below(13) - 2
    numbers = [draw.bits(1 + draw.below(40)) - 2**20 for _ in range(rows)]
    if kind == 2:
        # One division or multiplication, rounded once, as the format says.
        values = [float_bits(n / 10.0**scale if scale >= 0 else n * 10.0**-scale) for n in numbers]
    else:
        values = [float_bits(n * 2.0**-scale) for n in numbers]
    exceptions = []
    if draw.below(3) == 0:
        for row in range(rows):
            if draw.below(9) == 0:
                odd = draw.one_of([1 << 63, 0x7FF8_0000_0000_0001, 0x7FF0 << 48, 1, draw.bits(64)])
                exceptions.append((row, odd))
                values[row] = odd
                numbers[row] = numbers[row - 1]
    # A zero is +0.0 here as there: 0 / 10 and 0 * 2 are.
    encoded = draw.one_of(sorted(encodings_of(numbers, draw).items()))[1]
    pack = columns.decimal if kind == 2 else columns.dyadic
    statistics = None if exceptions else with_statistics(numbers, draw)
    return make.field(name, F64, values, pack(scale, (rows, encoded), exceptions), statistics)


def text_field(draw, name, rows, physical_type):
    words = ["", "ok", "Nile", "\u6c34", "a b", "\u00e9t\u00e9", "x" * 200, "\U0001f30a"]
    if physical_type == TEXT:
        values = [draw.one_of(words) for _ in range(rows)]
        raw = [v.encode() for v in values]
    else:
        values = raw = [bytes(draw.bits(8) for _ in range(draw.below(20))) for _ in range(rows)]
    lengths = [len(v) for v in raw]
    return make.field(name, physical_type, values, columns.plain(draw.one_of(sorted(encodings_of(lengths, draw).items()))[1], raw))


def any_field(draw, number, rows):
    name = draw.one_of(["v", "temperature", "x y", "\u00e9", "f", "a,b"]) + str(number)
    kind = draw.below(8)
    if kind < 3:
        return float_field(draw, name, rows)
    if kind < 5:
        return integer_field(draw, name, rows, I64 if draw.below(3) else U64)
    if kind == 5:
        return bool_field(draw, name, rows)
    return text_field(draw, name, rows, TEXT if draw.below(2) else BYTES)


def times_of(draw, rows):
    kind = draw.below(4)
    first = make.T + draw.bits(30)
    if kind == 0:
        return [first + 10_000 * i for i in range(rows)]
    if kind == 1:
        return [first] * rows
    if kind == 2:
        return sorted(first + draw.bits(12) for _ in range(rows))
    return sorted(draw.bits(42) - 2**41 for _ in range(rows))


def good(number):
    draw = Draw(number)
    blocks = []
    for index in range(1 + draw.below(4) // 2):
        rows = draw.one_of([1, 2, 3, 7, 31, 32, 33, 64, 65, 100, 128])
        fields = [any_field(draw, i, rows) for i in range(draw.one_of([1, 1, 2, 3, 5]))]
        keys = ["m", "climate,room=attic", "log\\ book,a\\=b=c\\,d,host=\u00e9", "m,a=1,b=2,c=3"]
        blocks.append(block(draw.one_of(keys) + (",z=%d" % index if index else ""), times_of(draw, rows), fields))
    options = dict(sequence=1 + draw.bits(31), source=draw.bits(32), tick=draw.one_of([1, 1000, 10**6, 10**9]))
    if draw.below(3) == 0:
        options["base"] = blocks[0][1][0] - draw.bits(20)
    return blocks, options


def special():
    """Shapes at the borders of the format."""
    rows = list(range(1024))
    yield "rows_1024", [block("m", [make.T + i for i in rows], [make.field("v", I64, rows, columns.stride(0, 1), rows)])], {}
    single = [make.field("f%d" % i, I64, [i], columns.const(i), [i]) for i in range(16)]
    yield "fields_16", [block("m", [make.T], single)], {}
    yield "key_255", [block("m,t=" + "x" * 251, [make.T], [single[0]])], {}
    name = "n" * 255
    yield "name_255", [block("m", [make.T], [make.field(name, BOOL, [1], columns.bitmap([1]), [1])])], {}
    limit = 2**52 - 1
    yield "statistics_at_the_limit", [block("m", [make.T, make.T + 1], [make.field("v", I64, [limit, -limit], columns.raw([limit, -limit]), [limit, -limit])])], {}
    beyond = [2**52, -(2**52)]
    yield "statistics_beyond_the_limit_left_out", [block("m", [make.T, make.T + 1], [make.field("v", I64, beyond, columns.raw(beyond))])], {}
    decimals = [2**51 - 1, -(2**51)]
    bits = [float_bits(d / 10.0**18) for d in decimals]
    yield "decimal_at_the_limit", [block("m", [1, 2], [make.field("v", F64, bits, columns.decimal(18, (2, columns.raw(decimals)), []), decimals)])], {}
    dyadics = [2**53 - 1, -(2**53)]
    bits = [float_bits(d * 2.0**-120) for d in dyadics]
    yield "dyadic_at_the_limit", [block("m", [1, 2], [make.field("v", F64, bits, columns.dyadic(120, (2, columns.raw(dyadics)), []))])], {}
    bits = [float_bits(d * 2.0**127) for d in [3, -5]]
    yield "dyadic_scale_below", [block("m", [1, 2], [make.field("v", F64, bits, columns.dyadic(-127, (2, columns.raw([3, -5])), []), [3, -5])])], {}
    wide = [-(2**63), 2**63 - 1, 0]
    yield "frame_of_64_bits", [block("m", [1, 2, 3], [make.field("v", I64, wide, columns.frame(wide, -(2**63), 64))])], {}
    yield "part_65535", [block("m", [1], [single[0]])], dict(part=65535, flags=1, source=2**32 - 1)
    yield "sequence_beyond_32_bits_left_to_servers", [block("m", [1], [single[0]])], dict(sequence=2**32 - 1)
    yield "blocks_of_one_series", [block("m,a=b", [1], [single[0]]), block("m,a=b", [2], [single[1]])], {}
    many = [block("m,n=%03d" % i, [make.T + i], [make.field("v", I64, [i], columns.const(i), [i])]) for i in range(60)]
    yield "blocks_60", many, {}
    yield "boot_of_the_last_number", [block("m", [0], [single[0]])], dict(boot=2**32 - 1, tick=1)


def write_good():
    number = 0
    while len(files) < 2 * 110:
        blocks, options = good(number)
        # A device has a buffer for one page.
        if len(page(blocks, **options)) <= PAGE_BYTES_MAX:
            add("v_%03d" % number, blocks, options)
        number += 1
    for name, blocks, options in special():
        add("v_" + name, blocks, options)


def add(name, blocks, options):
    data = page(blocks, **options)
    assert len(data) <= PAGE_BYTES_MAX, (name, len(data))
    files[name + ".bin"] = data
    lines = [
        "\t".join([key, f[0], str(time), make.shown(f[1], value)])
        for key, times, fields in blocks
        for f in fields
        for time, value in zip(times, f[2])
    ]
    files[name + ".rows"] = "".join(line + "\n" for line in lines).encode()


# ---- pages that break a rule ----


def refuse(name, why, data):
    files["refused_v_" + name + ".bin"] = data
    files["refused_v_" + name + ".refused"] = (why + "\n").encode()


def with_column(physical_type, rows, encoding, body, times=None, statistics=b"\x00"):
    """A page of one block whose one field has this column page."""
    data = bytes([encoding, physical_type]) + struct.pack("<H", rows) + body
    times = times or [make.T + i for i in range(rows)]
    raw = b"\x01v" + struct.pack("<H", len(data)) + data + statistics
    return page([block("m", times, [("v", physical_type, [], raw)])])


def hostile_heads():
    it = block("m,a=b", [make.T, make.T + 5], [make.field("v", I64, [3, 9], columns.stride(3, 6), [3, 9])])
    whole = page([it])

    def changed(at, new):
        return make.sealed(whole[:at] + new + whole[at + len(new) :])

    for version in (0, 3, 255):
        refuse("version_%d" % version, "version", changed(4, bytes([version])))
    for bit in range(1, 8):
        refuse("flag_%d" % bit, "unknown flag", changed(5, bytes([1 | 1 << bit])))
    refuse("length_larger", "longer than it is", changed(8, struct.pack("<I", len(whole) + 1)))
    refuse("length_smaller", "shorter than it is", changed(8, struct.pack("<I", len(whole) - 1)))
    refuse("length_0", "no length", changed(8, struct.pack("<I", 0)))
    refuse("length_64k", "longer than any page", changed(8, struct.pack("<I", 65537)))
    refuse("length_4g", "longer than any page", changed(8, struct.pack("<I", 2**32 - 1)))
    refuse("no_blocks", "no blocks", changed(12, struct.pack("<H", 0)))
    refuse("more_blocks", "more blocks than there are", changed(12, struct.pack("<H", 2)))
    refuse("blocks_65535", "more blocks than there are", changed(12, struct.pack("<H", 65535)))
    refuse("reserved_high", "reserved bytes", changed(15, b"\x80"))
    refuse("base", "another base: times are not those of the head", changed(24, struct.pack("<q", make.T + 1)))
    refuse("least_time", "another least time", changed(32, struct.pack("<q", make.T - 1)))
    refuse("greatest_time", "another greatest time", changed(40, struct.pack("<q", make.T + 6)))
    refuse("times_swapped", "least and greatest time swapped", changed(32, whole[40:48] + whole[32:40]))
    for end in (1, 59, 60, 63, 64, len(whole) // 2):
        refuse("cut_at_%d" % end, "cut off", whole[:end])
    refuse("checksum_of_nothing", "checksum", whole[:-4] + b"\x00" * 4)
    refuse("checksum_inverted", "checksum", whole[:-4] + bytes(b ^ 0xFF for b in whole[-4:]))


def hostile_blocks():
    times = [make.T, make.T + 5]
    field = make.field("v", I64, [3, 9], columns.stride(3, 6), [3, 9])
    time_page = column(I64, 2, columns.stride(0, 5))

    def body(key=b"m", rows=varint(2), fields=varint(1), least=zigzag(0), length=varint(5), time=time_page, time_bytes=None, rest=field[3]):
        time_bytes = len(time) if time_bytes is None else time_bytes
        return varint(len(key)) + key + rows + fields + least + length + struct.pack("<H", time_bytes) + time + rest

    def hostile(name, why, bytes_of_body, blocks=1, **options):
        refuse(name, why, page([block("m", times, [field])] * blocks, body=bytes_of_body, **options))

    assert page([block("m", times, [field])], body=body()) == page([block("m", times, [field])])
    hostile("rows_1025", "more rows than a block has", body(rows=varint(1025)))
    hostile("rows_2_63", "rows beyond measure", body(rows=varint(2**63)))
    hostile("rows_varint_of_11_bytes", "a varint that does not end", body(rows=b"\x80" * 10 + b"\x01"))
    hostile("rows_varint_beyond_64_bits", "a varint of more than 64 bits", body(rows=b"\xff" * 9 + b"\x7f"))
    hostile("no_fields", "no fields", body(fields=varint(0), rest=b""))
    hostile("fields_17", "more fields than a block has", body(fields=varint(17), rest=field[3] * 17))
    hostile("fields_more", "a field that is not there", body(fields=varint(2)))
    hostile("fields_2_64", "fields beyond measure", body(fields=varint(2**64 - 1)))
    hostile("key_longer_than_the_page", "a key beyond the page", varint(2**40) + body()[1:])
    hostile("key_of_nothing", "a key of nothing", body(key=b""))
    hostile("key_half_a_letter", "a key that is not UTF-8", body(key=b"m\xc3"))
    hostile("least_time_elsewhere", "a block that begins at another time", body(least=zigzag(1)))
    hostile("length_elsewhere", "a block that ends at another time", body(length=varint(6)))
    hostile("time_bytes_more", "times that take more bytes", body(time_bytes=len(time_page) + 1))
    hostile("time_bytes_fewer", "times that take fewer bytes", body(time_bytes=len(time_page) - 1))
    hostile("time_bytes_0", "times of nothing", body(time_bytes=0))
    hostile("time_of_floats", "times that are floats", body(time=column(F64, 2, columns.raw([0, 5]))))
    hostile("time_of_unsigned", "times of another type", body(time=column(U64, 2, columns.stride(0, 5))))
    hostile("time_of_three_rows", "times of more rows", body(time=column(I64, 3, columns.stride(0, 5)), length=varint(5)))
    hostile("time_of_one_row", "times of fewer rows", body(time=column(I64, 1, columns.const(0))))
    hostile("time_falls", "times that fall", body(time=column(I64, 2, columns.stride(5, -5))))
    wrong = column(I64, 2, columns.stride(3, 6))
    name = b"\x01v"
    statistics = field[3][2 + 2 + len(wrong) :]
    for more, what in ((1, "more"), (-1, "fewer")):
        hostile("field_bytes_" + what, "a field that takes %s bytes" % what, body(rest=name + struct.pack("<H", len(wrong) + more) + wrong + statistics))
    hostile("field_bytes_0", "a field of nothing", body(rest=name + struct.pack("<H", 0) + statistics))
    hostile("field_name_beyond", "a name beyond the page", body(rest=b"\xff" + field[3][1:]))
    hostile("field_name_not_utf8", "a name that is not UTF-8", body(rest=b"\x01\xfe" + field[3][2:]))
    hostile("field_of_three_rows", "a field of more rows", body(rest=make.field("v", I64, [1] * 3, columns.const(1), [1] * 3)[3]))
    hostile("field_of_one_row", "a field of fewer rows", body(rest=make.field("v", I64, [1], columns.const(1), [1])[3]))
    values = field[3][: len(field[3]) - len(statistics)]
    for form in (2, 127, 255):
        hostile("statistics_form_%d" % form, "a form of statistics that no device writes", body(rest=values + bytes([form]) + statistics[1:]))
    # Least 3, distance 6, sum over the least 6, first 0, last 6: each of them by one.
    right = [zigzag(3), varint(6), varint(6), varint(0), varint(6)]
    for index, what in enumerate(["least", "distance", "sum", "first", "last"]):
        other = right[:index] + [zigzag(2) if index == 0 else varint({1: 7, 2: 7, 3: 1, 4: 5}[index])] + right[index + 1 :]
        hostile("statistics_" + what, "statistics of other values: " + what, body(rest=values + b"\x01" + b"".join(other)))
    hostile("statistics_beyond_64_bits", "statistics beyond 64 bits", body(rest=values + b"\x01" + zigzag(2**63 - 1) + varint(2**63) + b"\x00" * 3))
    hostile("statistics_cut", "statistics that are cut", body(rest=values + b"\x01" + zigzag(3)))


def hostile_columns():
    # Integers.
    for encoding in (14, 15, 21, 63, 127, 255):
        refuse("encoding_%d" % encoding, "an encoding that nobody knows", with_column(I64, 2, encoding, b"\x00" * 9))
    refuse("type_6", "a type that nobody knows", with_column(6, 1, 0, zigzag(1)))
    refuse("float_as_const", "floats in an encoding of integers", with_column(F64, 1, 0, zigzag(1)))
    refuse("integer_as_image", "integers in an encoding of floats", with_column(I64, 1, 9, b"\x00\x00\x00"))
    refuse("text_as_const", "text in an encoding of integers", with_column(TEXT, 1, 0, zigzag(1)))
    refuse("bool_2", "a boolean of 2", with_column(BOOL, 2, 1, zigzag(1) + zigzag(1)))
    refuse("bool_minus_1", "a boolean of -1", with_column(BOOL, 1, 0, zigzag(-1)))
    refuse("bitmap_short", "a bitmap that is cut", with_column(BOOL, 9, 12, b"\x01"))
    refuse("bitmap_long", "bytes behind a bitmap", with_column(BOOL, 8, 12, b"\x01\x00"))
    refuse("const_without_value", "no value", with_column(I64, 1, 0, b""))
    refuse("const_left_over", "bytes left over", with_column(I64, 1, 0, zigzag(1) + b"\x00"))
    refuse("raw_cut", "values that are cut", with_column(I64, 2, 4, b"\x00" * 15))
    refuse("raw_left_over", "bytes left over", with_column(I64, 2, 4, b"\x00" * 17))
    refuse("frame_width_65", "a width of 65", with_column(I64, 2, 2, b"\x41\x00\x00" + b"\x00" * 17))
    refuse("frame_width_255", "a width of 255", with_column(I64, 2, 2, b"\xff\x00\x00" + b"\x00" * 64))
    refuse("frame_cut", "packed values that are cut", with_column(I64, 9, 2, b"\x08\x00\x00" + b"\x00" * 8))
    refuse("frame_more_patches_than_rows", "more patches than rows", with_column(I64, 2, 2, b"\x01\x03\x00\x00" + b"\x01" + b"\x00" * 8))
    refuse("frame_patches_2_63", "patches beyond measure", with_column(I64, 2, 2, b"\x01" + varint(2**63) + b"\x00\x00\x01\x00"))
    refuse("frame_high_width_0", "a high width of 0", with_column(I64, 2, 2, b"\x01\x01\x00\x00" + b"\x00\x00"))
    refuse("frame_high_width_beyond", "widths of more than 64", with_column(I64, 2, 2, b"\x20\x01\x00" + b"\x00" * 8 + b"\x21\x00" + b"\x00" * 5))
    refuse("frame_positions_fall", "positions that fall", with_column(I64, 4, 2, b"\x01\x02\x00\x00" + b"\x01" + columns.packed([2, 1], 2) + b"\x03"))
    refuse("frame_positions_repeat", "a position twice", with_column(I64, 4, 2, b"\x01\x02\x00\x00" + b"\x01" + columns.packed([2, 2], 2) + b"\x03"))
    refuse("frame_position_beyond", "a position beyond the rows", with_column(I64, 3, 2, b"\x01\x01\x00\x00" + b"\x01" + columns.packed([3], 2) + b"\x01"))
    refuse("delta_cut", "differences that are cut", with_column(I64, 9, 3, zigzag(1) + b"\x08\x00\x00" + b"\x00" * 7))
    two = columns.raw([1, 1])
    runs = columns.runs(2, columns.raw([5, 6]), columns.raw([1, 3]))
    refuse("runs_too_long", "runs of more rows", with_column(I64, 3, *runs))
    refuse("runs_too_short", "runs of fewer rows", with_column(I64, 5, *runs))
    refuse("runs_of_nothing", "a run of no rows", with_column(I64, 2, *columns.runs(2, columns.raw([5, 6]), columns.raw([0, 2]))))
    refuse("runs_none", "no runs", with_column(I64, 2, 5, varint(0)))
    refuse("runs_in_runs", "runs in runs", with_column(I64, 2, *columns.runs(2, columns.runs(1, columns.const(1), columns.const(2)), two)))
    refuse("distinct_code_beyond", "a code that no entry has", with_column(I64, 2, *columns.distinct(1, columns.const(7), columns.raw([0, 1]))))
    refuse("distinct_none", "no entries", with_column(I64, 2, 6, varint(0) + bytes([0]) + zigzag(0)))
    refuse("blocked_order_2", "an order of 2", with_column(I64, 2, 13, b"\x02\x00" + zigzag(1) + b"\x00" + zigzag(0) + b"\x00"))
    refuse("blocked_width_65", "a block of 65 bits", with_column(I64, 2, *columns.blocked(0, [0, 0], ([65], columns.const(65)), ([0], columns.const(0)))))
    refuse("blocked_width_below_0", "a block of less than no bits", with_column(I64, 2, *columns.blocked(0, [0, 0], ([0], columns.const(-1)), ([0], columns.const(0)))))
    refuse("blocked_one_value_of_order_1", "differences of one value", with_column(I64, 1, 13, b"\x01" + zigzag(1)))
    # Floats.
    for scale in (19, -19, 127, -128):
        refuse("decimal_scale_%d" % scale, "a scale that is not exact", with_column(F64, 2, *columns.decimal(scale, (2, columns.const(1)), [])))
    for value in (2**51, -(2**51) - 1, 2**63 - 1):
        refuse("decimal_of_%d_bits_%s" % (columns.bits(abs(value)), "below" if value < 0 else "above"), "an integer beyond decimals", with_column(F64, 2, *columns.decimal(1, (2, columns.const(value)), [])))
    for value in (2**53, -(2**53) - 1):
        refuse("dyadic_%s" % ("below" if value < 0 else "above"), "an integer beyond dyadics", with_column(F64, 2, *columns.dyadic(1, (2, columns.const(value)), [])))
    refuse("decimal_more_exceptions_than_rows", "more exceptions than rows", with_column(F64, 2, *columns.decimal(1, (2, columns.const(1)), [(0, 1), (1, 1), (1, 1)])))
    refuse("decimal_exceptions_fall", "exceptions that fall", with_column(F64, 3, *columns.decimal(1, (3, columns.const(1)), [(2, 1), (1, 1)])))
    refuse("dyadic_exception_beyond", "an exception beyond the rows", with_column(F64, 3, *columns.dyadic(1, (3, columns.const(1)), [(3, 1)])))
    refuse("image_shift_64", "a shift of 64", with_column(F64, 2, 9, b"\x40\x00" + zigzag(1)))
    exceptional = columns.decimal(1, (2, columns.const(10)), [(1, 1 << 63)])
    refuse("statistics_with_exceptions", "statistics of floats with exceptions", with_column(F64, 2, *exceptional, statistics=make.statistics([10, 10])))
    raw = columns.raw([1, 1])
    refuse("statistics_of_raw_floats", "statistics of floats as they are", with_column(F64, 2, *raw, statistics=make.statistics([1, 1])))
    large = [2**52, 2**52]
    refuse("statistics_of_large_integers", "statistics of integers whose sum may wrap", with_column(I64, 2, *columns.raw(large), statistics=make.statistics(large)))
    # Text.
    plain = columns.plain(columns.raw([1, 1]), [b"a", b"b"])
    refuse("statistics_of_text", "statistics of text", with_column(TEXT, 2, *plain, statistics=make.statistics([1, 1])))
    refuse("text_longer_than_the_page", "text beyond its page", with_column(TEXT, 2, *columns.plain(columns.raw([1, 2]), [b"a", b"b"])))
    refuse("text_left_over", "text of nobody", with_column(TEXT, 2, *columns.plain(columns.raw([1, 1]), [b"a", b"bc"])))
    refuse("text_length_below_0", "a length below 0", with_column(TEXT, 2, *columns.plain(columns.raw([-1, 3]), [b"a", b"b"])))
    refuse("text_length_2_62", "a length beyond measure", with_column(TEXT, 2, *columns.plain(columns.raw([2**62, 1]), [b"a", b"b"])))
    refuse("text_not_utf8", "text that is not UTF-8", with_column(TEXT, 1, *columns.plain(columns.const(2), [b"\xc0\x80"])))
    refuse("text_split_letter", "two values with half a letter each", with_column(TEXT, 2, *columns.plain(columns.raw([1, 1]), [b"\xc3", b"\xa9"])))
    refuse("text_surrogate", "a surrogate", with_column(TEXT, 1, *columns.plain(columns.const(3), [b"\xed\xa0\x80"])))
    refuse("dictionary_code_beyond", "a code that no entry has", with_column(TEXT, 2, *columns.dictionary(columns.const(1), [b"a"], columns.raw([0, 1]))))
    refuse("dictionary_more_entries_than_rows", "more entries than rows", with_column(TEXT, 1, *columns.dictionary(columns.raw([1, 1]), [b"a", b"b"], columns.const(0))))
    refuse("pco", "numbers in pco", with_column(I64, 2, 11, b"\x00" * 8))
    refuse("transposed", "bytes in lanes", with_column(BYTES, 2, *columns.transposed((1, columns.const(1)), [columns.raw([1, 2])])))
    refuse("nulls_of_some", "a null bitmap", with_column(0x80 | I64, 2, 0, b"\x01" + zigzag(5)))
    refuse("nulls_of_all", "nulls alone", with_column(0x80 | I64, 2, 0, b"\x00"))



def main():
    write_good()
    hostile_heads()
    hostile_blocks()
    hostile_columns()
    pages = sum(name.endswith(".bin") for name in files)
    if sys.argv[1:] == ["--check"]:
        wrong = [name for name, data in files.items() if not (HERE / name).exists() or (HERE / name).read_bytes() != data]
        if wrong:
            sys.exit("other bytes are packed than those that are here: " + ", ".join(sorted(wrong)))
        print("%d numbered device pages are those that are packed" % pages)
        return
    for name, data in files.items():
        (HERE / name).write_bytes(data)
    print("%d device pages written" % pages)


if __name__ == "__main__":
    main()
