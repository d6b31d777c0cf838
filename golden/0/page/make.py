#!/usr/bin/env python3
"""Writes the golden pages of format 0: <name>.bin, and <name>.json with what a reader must find in it.

Packs the bytes from docs/format/page.md alone, bit by bit, and shares nothing with the Rust code. Run it only to add
pages: those of a released format never change.

In the JSON, integers and booleans are themselves, floats are their 64 bits in hexadecimal, text is text, bytes are
hexadecimal, and null is null. `is_canonical` says that our writer, given the values, writes exactly these bytes; `set`
is the set of encodings that it may choose from, 1 if nothing is said. `header` is what the page shares with others of
its column, in hexadecimal.
"""

import itertools
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
I64, U64, F64, BOOL, TEXT, BYTES = range(6)
TYPE_NAMES = ["i64", "u64", "f64", "bool", "text", "bytes"]
CONST, STRIDE, FOR, DELTA, RAW, RUNS, DISTINCT, GRID, DECIMAL, IMAGE, BITMAP, PLAIN, DICTIONARY = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17
DYADIC, PCO, BLOCKED = 10, 11, 13
PLAIN_ZSTD = 18
TRANSPOSED = 20


def varint(x):
    out = []
    while True:
        out.append(x % 128 + (128 if x >= 128 else 0))
        x //= 128
        if x == 0:
            return bytes(out)


def zigzag(x):
    return varint(2 * x if x >= 0 else -2 * x - 1)


def bits(x):
    return x.bit_length()


def packed(values, width):
    text = "".join(format(v, "0%db" % width)[::-1] for v in values) if width else ""
    text += "0" * (-len(text) % 8)
    return bytes(int(text[i : i + 8][::-1], 2) for i in range(0, len(text), 8))


def packing(values, base, width):
    """Offsets that do not fit `width` become patches; one below the base wraps."""
    offsets = [(v - base) % 2**64 for v in values]
    wide = [i for i, offset in enumerate(offsets) if offset >> width]
    out = bytes([width]) + varint(len(wide)) + zigzag(base) + packed([o % 2**width for o in offsets], width)
    if wide:
        high_width = max(bits(offsets[i] >> width) for i in wide)
        out += bytes([high_width]) + packed(wide, bits(len(values) - 1))
        out += packed([offsets[i] >> width for i in wide], high_width)
    return out


def signed(x):
    x %= 2**64
    return x - 2**64 if x >= 2**63 else x


def const(value):
    return CONST, zigzag(value)


def stride(first, step):
    return STRIDE, zigzag(first) + zigzag(step)


def frame(values, base, width):
    return FOR, packing(values, base, width)


def delta(values, base, width):
    deltas = [signed(b - a) for a, b in zip(values, values[1:])]
    return DELTA, zigzag(values[0]) + packing(deltas, base, width)


def raw(values):
    return RAW, b"".join(struct.pack("<q", v) for v in values)


def runs(count, values, lengths):
    """`values` and `lengths` are encoded, but not as runs."""
    return RUNS, varint(count) + chunk(values) + chunk(lengths)


def distinct(count, entries, codes):
    """`entries` and `codes` are encoded, but not as runs and not as distinct ones."""
    return DISTINCT, varint(count) + chunk(entries) + chunk(codes)


def grid(base, width, numbers):
    """`numbers` are encoded, but not as runs, distinct ones or a grid."""
    return GRID, zigzag(base) + varint(width) + chunk(numbers)


def chunk(encoded):
    encoding, body = encoded
    return bytes([encoding]) + body


def float_bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def decimal(scale, integers, exceptions):
    """`exceptions` are (position, bits)."""
    n = len(integers[1]) if isinstance(integers[0], list) else integers[0]
    body = struct.pack("<b", scale) + varint(len(exceptions))
    body += packed([position for position, _ in exceptions], bits(n - 1))
    body += b"".join(struct.pack("<Q", b) for _, b in exceptions)
    return DECIMAL, body + chunk(integers[1])


def dyadic(scale, integers, exceptions):
    n, encoded = integers
    body = struct.pack("<b", scale) + varint(len(exceptions))
    body += packed([position for position, _ in exceptions], bits(n - 1))
    body += b"".join(struct.pack("<Q", b) for _, b in exceptions)
    return DYADIC, body + chunk(encoded)


def blocked(order, values, widths, bases):
    """`widths` and `bases` are lists of (numbers, encoded)."""
    numbers = [signed(b - a) for a, b in zip(values, values[1:])] if order else values
    body = bytes([order]) + (zigzag(values[0]) if order else b"") + chunk(widths[1]) + chunk(bases[1])
    for i, (width, base) in enumerate(zip(widths[0], bases[0])):
        body += packed([(v - base) % 2**64 for v in numbers[32 * i : 32 * i + 32]], width)
    return BLOCKED, body


def pco_header(delta_order, lower, width, size=64):
    """What pco's format page has: version 4.1, classic mode, differences of an order, one bin of weight 1, of numbers of `size` bits.

    Sizes in bits: mode 4, kind of differences 4, order 3, whether a second variable has differences 1, size of the
    coder 4, bins 15, of the bin its lower end 64 and the width of its offsets 7 (32 and 6, or 16 and 5, of narrower numbers).
    """
    fields = [(0, 4), (1, 4), (delta_order, 3), (0, 1)] if delta_order else [(0, 4), (0, 4)]
    fields += [(0, 4), (1, 15), (lower, size), (width, bits(size))]
    text = "".join(format(v, "0%db" % w)[::-1] for v, w in fields)
    text += "0" * (-len(text) % 8)
    return bytes([4, 1]) + bytes(int(text[i : i + 8][::-1], 2) for i in range(0, len(text), 8))


def pco_page(values, delta_order, lower, width, size=64):
    """One bin needs no coder, so a page is the first value of each order of differences, and the offsets in the bin."""
    state, all, half = b"", 2**size, 2 ** (size - 1)
    latents = [(v + half) % all for v in values]
    for _ in range(delta_order):
        state += latents[0].to_bytes(size // 8, "little")
        latents = [(b - a) % all for a, b in zip(latents, latents[1:])]
    if delta_order:
        latents = [(x + half) % all for x in latents]
    return PCO, state + packed([(x - lower) % all for x in latents], width)


def image(shift, encoded):
    return IMAGE, bytes([shift]) + chunk(encoded)


def bitmap(values):
    return BITMAP, packed(values, 1)


def plain(lengths, values):
    return PLAIN, chunk(lengths) + b"".join(values)


def dictionary(lengths, entries, codes):
    return DICTIONARY, varint(len(entries)) + chunk(lengths) + b"".join(entries) + chunk(codes)


def stored_zstd(inner):
    """A zstd frame of one raw block (RFC 8878): single segment, one byte of content size."""
    body = inner[1]
    assert len(body) < 256
    block = struct.pack("<I", len(body) << 3 | 0 << 1 | 1)[:3] + body
    zstd = bytes.fromhex("28b52ffd") + bytes([0x20, len(body)]) + block
    return PLAIN_ZSTD, varint(len(body)) + varint(len(zstd)) + zstd


def transposed(widths, lanes):
    """`widths` and each of `lanes` are encoded; of a width below zero the lowest byte comes first."""
    count, encoded = widths
    assert count == len(lanes)
    return TRANSPOSED, varint(count) + chunk(encoded) + b"".join(chunk(lane) for lane in lanes)


def word(number, width):
    return (number % 2 ** (8 * abs(width))).to_bytes(abs(width), "big" if width > 0 else "little")


def structures(widths, rows):
    """The bytes of each row's numbers."""
    return [b"".join(word(number, width) for number, width in zip(row, widths)) for row in rows]


def write(name, physical_type, values, encoded, is_canonical=True, writer_set=1, header=None):
    encoding, body = encoded
    has_nulls = any(v is None for v in values)
    page = bytes([encoding, physical_type + 128 * has_nulls]) + struct.pack("<H", len(values))
    if has_nulls:
        page += packed([int(v is not None) for v in values], 1)
    (HERE / (name + ".bin")).write_bytes(page + body)

    def shown(v):
        if v is None or physical_type in (I64, U64, BOOL, TEXT):
            return v
        return "%016x" % v if physical_type == F64 else v.hex()

    description = {
        "type": TYPE_NAMES[physical_type],
        "encoding": encoding,
        "has_nulls": has_nulls,
        "is_canonical": is_canonical,
        "values": [shown(v) for v in values],
    }
    if writer_set != 1:
        description["set"] = writer_set
    if header is not None:
        description["header"] = header.hex()
    text = json.dumps(description, ensure_ascii=True, indent=None)
    (HERE / (name + ".json")).write_text(text + "\n")


MIN, MAX = -(2**63), 2**63 - 1


def integers():
    write("const_one_row", I64, [7], const(7))
    write("const_min", I64, [MIN] * 1024, const(MIN))
    write("const_unsigned_max", U64, [2**64 - 1] * 3, const(-1))
    write("stride_times", I64, [1_700_000_000 * 10**9 + i * 10**10 for i in range(1024)], stride(1_700_000_000 * 10**9, 10**10))
    write("stride_down", I64, [5, 3, 1, -1, -3], stride(5, -2))
    write("stride_two_rows", I64, [MAX, MIN], stride(MAX, 1))
    # The example of the format page: 1 to 5 in three bits, offsets from 0 by choice of the writer.
    write("frame_of_the_page", I64, [1, 2, 3, 4, 5], frame([1, 2, 3, 4, 5], 0, 3), is_canonical=False)
    for width in (1, 3, 7, 8, 13, 31, 32, 33, 57, 63):
        # Every value of the width's range is as likely as any other, so neither differences nor patches help.
        noise = [(i * 0x9E3779B97F4A7C15 + 0x1234567) % 2**64 for i in range(200)]
        noise = [(x ^ x >> 29) * 0xBF58476D1CE4E5B9 % 2**64 >> (64 - width) for x in noise]
        values = [x - 2**62 for x in noise]
        write("frame_width_%d" % width, I64, values, frame(values, min(values), width), is_canonical=width < 57)
    quiet = [(i * i) % 4 + (i * 7) % 3 for i in range(130)]
    spikes = [10**6 * i if i in (3, 64, 129) else x for i, x in enumerate(quiet)]
    write("frame_patches", I64, spikes, frame(spikes, 0, 3), is_canonical=False)
    low = [MIN if i == 77 else 1000 + x for i, x in enumerate(quiet)]
    write("frame_patch_below_base", I64, low, frame(low, 1000, 3), is_canonical=False)
    write("frame_width_64", U64, [0, 2**63, 2**64 - 1, 1], frame([0, -(2**63), -1, 1], -(2**63), 64), is_canonical=False)
    walk, state = [50], 1
    for i in range(359):
        state = state * 1103515245 % 2**31 + 12345
        walk.append(walk[-1] + (state >> 16) % 7 - 2)
    write("delta_walk", I64, walk, delta(walk, -2, 3))
    jump = [x if i < 100 else x + 10**12 for i, x in enumerate(walk[:230])]
    write("delta_patch", I64, jump, delta(jump, -2, 3))
    wrap = [MAX - 3, MAX, MIN + 1, MAX - 1, MIN]
    write("delta_wraps", I64, wrap, delta(wrap, -3, 3), is_canonical=False)
    write("delta_one_row", I64, [9], delta([9], 0, 0), is_canonical=False)
    write("raw_extremes", I64, [MIN, 0, MAX, -1, 1, 123456789], raw([MIN, 0, MAX, -1, 1, 123456789]), is_canonical=False)
    states = [x * x % 1009 for x in range(11, 800, 37)]
    lengths = [20 + x * x % 31 for x in range(len(states))]
    values = [state for state, length in zip(states, lengths) for _ in range(length)]
    encoded = runs(len(states), frame(states, min(states), 10), frame(lengths, min(lengths), 5))
    write("runs_states", I64, values, encoded)
    write("runs_of_one", I64, [3] * 20, runs(1, const(3), const(20)), is_canonical=False)
    write("runs_of_each", U64, [4, 9, 1], runs(3, raw([4, 9, 1]), const(1)), is_canonical=False)
    # Twenty series that tick together, one after the other; one of them starts late.
    ticks = [1_700_000_000 * 10**9 + i * 10**10 for i in range(12)]
    codes = list(range(3, 12)) + list(range(12)) * 19
    encoded = distinct(12, stride(ticks[0], 10**10), frame(codes, 0, 4))
    write("distinct_times", I64, [ticks[code] for code in codes], encoded)
    # Taken to the second, at no even pace.
    write("grid_seconds", I64, [(1_700_000_000 + x) * 10**9 for x in walk], grid((1_700_000_000 + walk[0]) * 10**9, 10**9, delta([x - walk[0] for x in walk], -2, 3)))
    write("grid_wraps", I64, [MAX, MIN, 0], grid(MAX, 2**64 - 1, raw([0, -1, MAX])), is_canonical=False)
    prices = [float_bits(x) for x in (19.99, 4.5, 0.35)]
    codes = [(i * i + i // 7) % 3 for i in range(100)]
    write("distinct_unsorted", U64, [prices[code] for code in codes], distinct(3, raw([signed(p) for p in prices]), frame(codes, 0, 2)), is_canonical=False)
    write("distinct_unused", I64, [5, 5, 5], distinct(3, stride(4, 1), const(1)), is_canonical=False)
    write("nulls", I64, [None, 4, None, 4, None, None, None, None, None, 4, None], const(4))
    write("nulls_only", I64, [None] * 9, (CONST, b""))
    write("nulls_only_text", TEXT, [None] * 3, (CONST, b""))


def floats():
    def page(name, values, encoded, **options):
        write(name, F64, [None if v is None else v if isinstance(v, int) else float_bits(v) for v in values], encoded, **options)

    tenths = [215, 217, 214, 215, 219, 220, 212, 213]
    page("decimal_tenths", [t / 10 for t in tenths], decimal(1, (8, frame(tenths, 212, 4)), []))
    whole = [3, 9, 1, 7, 4, 8, 2, 2]
    page("decimal_whole", [float(w) for w in whole], decimal(0, (8, frame(whole, 1, 4)), []))
    page("decimal_thousands", [w * 1000.0 for w in whole], decimal(-3, (8, frame(whole, 1, 4)), []))
    # Fifteen digits over powers that binary cannot hold.
    deep = [123456789012345, 123456789012346, 123456789012348]
    page("decimal_fifteen_digits", [d / 10**9 for d in deep], decimal(9, (3, delta(deep, 1, 1)), []), is_canonical=False)
    nan, payload, negative_zero, infinity, tiny = 0x7FF8 << 48, 0xFFF8_0000_DEAD_BEEF, 1 << 63, 0x7FF0 << 48, 1
    odd = {2: nan, 5: payload, 9: negative_zero, 13: infinity, 20: infinity | 1 << 63, 25: tiny}
    values, latents = [], []
    for i in range(40):
        latents.append(latents[-1] if i in odd else 500 + (i * i) % 13)
        values.append(odd[i] if i in odd else latents[-1] / 100)
    exceptions = sorted(odd.items())
    page("decimal_exceptions", values, decimal(2, (40, frame(latents, min(latents), 4)), exceptions), is_canonical=False)
    page("decimal_limits", [-(2.0**51), 2.0**51 - 1], decimal(0, (2, stride(-(2**51), 2**52 - 1)), []), is_canonical=False)
    page("decimal_nulls", [None, 0.5, None, 0.5], decimal(1, (2, const(5)), []))
    singles = [struct.unpack("<f", struct.pack("<f", 1 + i * i / 997))[0] for i in range(20)]
    latents = [float_bits(s) >> 29 for s in singles]
    width = bits(max(latents) - min(latents))
    page("image_singles", singles, image(29, frame(latents, min(latents), width)), is_canonical=False)
    page("image_nan", [nan] * 5, image(51, const(0xFFF)))
    page("image_negative", [-0.0, -0.0, -0.0], image(63, const(-1)))
    page("raw_floats", [0.1, -1e300, payload, tiny], raw([signed(b) for b in map(float_bits, (0.1, -1e300))] + [signed(payload), 1]))


def second_set():
    """Encodings that came with segments of format 2."""
    noise = [(i * 0x9E3779B97F4A7C15 + 0x1234567) % 2**64 for i in range(1024)]
    noise = [(x ^ x >> 29) * 0xBF58476D1CE4E5B9 % 2**64 for x in noise]
    # Calm blocks and wild ones in turns.
    widths = [40 if i % 3 == 2 else 2 + i % 2 for i in range(8)]
    values = [noise[i] >> (64 - widths[i // 32]) for i in range(256)]
    ends = [(min(values[i : i + 32]), max(values[i : i + 32])) for i in range(0, 256, 32)]
    of_blocks = [bits(high - low) for low, high in ends]
    bases = [low for low, _ in ends]
    encoded = blocked(0, values, (of_blocks, raw(of_blocks)), (bases, raw(bases)))
    write("blocked", I64, values, encoded, is_canonical=False, writer_set=2)
    encoded = blocked(0, values[:70], (of_blocks[:3], raw(of_blocks[:3])), (bases[:3], raw(bases[:3])))
    write("blocked_short_block", U64, values[:70], encoded, is_canonical=False, writer_set=2)
    extremes = [MIN, MAX, 0, -1] * 10
    encoded = blocked(0, extremes, ([64, 64], const(64)), ([MIN, MIN], const(MIN)))
    write("blocked_extremes", I64, extremes, encoded, is_canonical=False, writer_set=2)
    sums = [noise[0]]
    for step in values:
        sums.append(sums[-1] + step)
    sums = [signed(x) for x in sums]
    encoded = blocked(1, sums, (of_blocks, raw(of_blocks)), (bases, raw(bases)))
    write("blocked_differences", I64, sums, encoded, is_canonical=False, writer_set=2)
    encoded = blocked(1, [MAX, MIN, MAX], ([64], const(64)), ([-1], const(-1)))
    write("blocked_wraps", I64, [MAX, MIN, MAX], encoded, is_canonical=False, writer_set=2)
    write("blocked_in_decimal", F64, [float_bits(v / 10) for v in values], decimal(1, (256, blocked(0, values, (of_blocks, raw(of_blocks)), (bases, raw(bases)))), []), is_canonical=False, writer_set=2)

    def page(name, values, encoded, **options):
        write(name, F64, [None if v is None else v if isinstance(v, int) else float_bits(v) for v in values], encoded, writer_set=2, **options)

    # A thermometer with steps of 1/16 degree.
    sixteenths = [340 + x % 61 for x in noise[:48]]
    low = min(sixteenths)
    page("dyadic_sixteenths", [x / 16 for x in sixteenths], dyadic(4, (48, frame(sixteenths, low, bits(max(sixteenths) - low))), []))
    page("dyadic_nulls", [None, 0.375, None, -0.125], dyadic(3, (2, stride(3, -4)), []), is_canonical=False)
    page("dyadic_limits", [-(2.0**53), 2.0**53 - 1], dyadic(0, (2, raw([-(2**53), 2**53 - 1])), []), is_canonical=False)
    page("dyadic_smallest", [2.0**-127, 3 * 2.0**-127], dyadic(127, (2, stride(1, 2)), []), is_canonical=False)
    page("dyadic_largest", [2.0**128, -(2.0**180)], dyadic(-128, (2, raw([1, -(2**52)])), []), is_canonical=False)
    odd = {0: 0x7FF8 << 48, 7: 0xFFF8_0000_DEAD_BEEF, 8: 1 << 63, 30: 0x7FF0 << 48, 39: 1}
    first = next(i for i in range(40) if i not in odd)
    values, latents = [], []
    for i in range(40):
        exact = -700 + (i * i) % 13
        latents.append((latents[-1] if latents else -700 + (first * first) % 13) if i in odd else exact)
        values.append(odd[i] if i in odd else exact / 2**20)
    page("dyadic_exceptions", values, dyadic(20, (40, frame(latents, min(latents), 4)), sorted(odd.items())), is_canonical=False)

    # Numbers in pco; our writer never makes a column of one page of a few values.
    walk = [1000 + x % 64 for x in noise[:300]]
    lower = 1000 + 2**63
    write("pco_integers", I64, walk, pco_page(walk, 0, lower, 6), is_canonical=False, header=bytes([0]) + pco_header(0, lower, 6))
    lower = 2**63 - 3
    deltas, at = [], -(2**40)
    for x in noise[:100]:
        deltas.append(at)
        at += x % 8 - 3
    write("pco_differences", I64, deltas, pco_page(deltas, 1, lower, 3), is_canonical=False, header=bytes([0]) + pco_header(1, lower, 3))
    tenths = [200 + x % 16 for x in noise[:20]]
    lower = 200 + 2**63
    shown = [t / 10 for t in tenths]
    shown[3], shown[19] = 0x7FF8_0000_0000_1234, 1 << 63
    exceptions = [(3, shown[3]), (19, shown[19])]
    body = varint(2) + packed([3, 19], 5) + b"".join(struct.pack("<Q", b) for _, b in exceptions)
    encoded = PCO, body + pco_page(tenths, 0, lower, 4)[1]
    page_values = [v if isinstance(v, int) else float_bits(v) for v in shown]
    write("pco_decimals", F64, page_values[:7] + [None] * 3 + page_values[7:], encoded, is_canonical=False, header=bytes([1, 1]) + pco_header(0, lower, 4))
    halves = [t / 2 for t in tenths]
    write("pco_dyadics", F64, [float_bits(v) for v in halves], (PCO, varint(0) + pco_page(tenths, 0, lower, 4)[1]), is_canonical=False, header=bytes([2, 1]) + pco_header(0, lower, 4))


    # Integers that all fit 32 or 16 bits are so in pco; sums wrap there.
    for name, size, start in [("pco_half", 32, -(2**31)), ("pco_quarter", 16, -(2**15))]:
        lower = 2 ** (size - 1) - 3
        for order in (0, 1, 2):
            values, at = [], start
            for x in noise[:100]:
                values.append(at)
                at += x % 8 - 3 if at > start + 3 else 5
            if order == 0:
                values = [v - start - 3 for v in values]
                header, encoded = pco_header(0, lower, 9, size), pco_page(values, 0, lower, 9, size)
            elif order == 1:
                values = values[:1] + [2 ** (size - 1) - 1 - (v - start) for v in values[1:]]
                header, encoded = pco_header(1, 2 ** (size - 1) - 12, 5, size), pco_page(values, 1, 2 ** (size - 1) - 12, 5, size)
            else:
                header, encoded = pco_header(2, 2 ** (size - 1) - 16, 5, size), pco_page(values, 2, 2 ** (size - 1) - 16, 5, size)
            form = {32: 4, 16: 8}[size]
            write("%s_%d" % (name, order), I64, values, encoded, is_canonical=False, header=bytes([form]) + header)
    lower = 200 + 2**15
    scaled = [float_bits(t / 10) for t in tenths]
    encoded = PCO, varint(0) + pco_page(tenths, 0, lower, 4, 16)[1]
    write("pco_quarter_decimals", F64, scaled, encoded, is_canonical=False, header=bytes([9, 1]) + pco_header(0, lower, 4, 16))
    lower = 200 + 2**31
    encoded = PCO, varint(0) + pco_page(tenths, 0, lower, 4, 32)[1]
    write("pco_half_dyadics", F64, [float_bits(t / 2) for t in tenths], encoded, is_canonical=False, header=bytes([6, 1]) + pco_header(0, lower, 4, 32))
    lower = 1000 + 2**15
    write("pco_quarter_unsigned", U64, walk, pco_page(walk, 0, lower, 6, 16), is_canonical=False, header=bytes([8]) + pco_header(0, lower, 6, 16))


def booleans():
    thirds = [i * i % 3 == 1 and i % 7 != 2 for i in range(50)]
    write("bitmap", BOOL, thirds, bitmap(thirds))
    on_off = [(x // 90 + x // 211) % 2 == 0 for x in range(1000)]
    lengths = [len(list(run)) for _, run in itertools.groupby(on_off)]
    alternating = [(1 + x) % 2 for x in range(len(lengths))]
    write("runs_bool", BOOL, on_off, runs(len(lengths), frame(alternating, 0, 1), frame(lengths, min(lengths), bits(max(lengths) - min(lengths)))))
    write("bool_const", BOOL, [True] * 1000, const(1))
    write("bool_nulls", BOOL, [True, None, False, True, True, False, None, True], bitmap([1, 0, 1, 1, 0, 1]))


def texts():
    words = ["Nile", "", "na\u00efve", "\u6c34", "\U0001f30a wave"]
    lengths = [len(w.encode()) for w in words]
    assert lengths == [4, 0, 6, 3, 9]
    write("plain", TEXT, words, plain(frame(lengths, 0, 4), [w.encode() for w in words]))
    write("plain_empty", TEXT, [""] * 4, plain(const(0), []), is_canonical=False)
    blobs = [bytes([0xFF, i, 0x80]) for i in range(6)]
    write("plain_bytes", BYTES, blobs, plain(const(3), blobs))
    entries = [b"eu", b"us-east", b""]
    codes = [0, 0, 1, 2, 0, 1, 1, 0, 2, 0, 1, 0, 0, 0, 2, 1]
    values = [entries[c].decode() for c in codes]
    encoded = dictionary(frame([2, 7, 0], 0, 3), entries, frame(codes, 0, 2))
    write("dictionary", TEXT, values, encoded)
    write("dictionary_nulls", TEXT, [None] + values, encoded)
    lines = ["depth 12 cubits", "depth 13 cubits"]
    inner = plain(const(15), [line.encode() for line in lines])
    write("zstd_plain", TEXT, lines, stored_zstd(inner), is_canonical=False)


def fourth_set():
    """Values of one length in lanes, which came with segments of format 4."""
    noise = [(i * 0x9E3779B97F4A7C15 + 0x1234567) % 2**64 for i in range(1024)]
    noise = [(x ^ x >> 29) * 0xBF58476D1CE4E5B9 % 2**64 for x in noise]
    # Three bits each, highest byte first and lowest byte first, some of them below zero: what our writer makes of them, too.
    widths = [4, -4, 4]
    rows = [(noise[i] >> 61, 70 + (noise[100 + i] >> 61), (noise[200 + i] >> 61) - 4) for i in range(100)]
    lanes = [list(lane) for lane in zip(*rows)]
    encoded = transposed((3, raw(widths)), [frame(lane, min(lane), 3) for lane in lanes])
    write("transposed_raw_widths", BYTES, structures(widths, rows), encoded, is_canonical=False, writer_set=4)
    encoded = transposed((3, frame(widths, -4, 4)), [frame(lane, min(lane), 3) for lane in lanes])
    write("transposed", BYTES, structures(widths, rows), encoded, is_canonical=False, writer_set=4)
    rows = [row[:1] + row[2:] for row in rows]
    lanes = [list(lane) for lane in zip(*rows)]
    encoded = transposed((2, const(4)), [frame(lane, min(lane), 3) for lane in lanes])
    write("transposed_canonical", BYTES, structures([4, 4], rows), encoded, writer_set=4)
    nulls = [None, None] + structures([4, 4], rows[:50]) + [None] + structures([4, 4], rows[50:])
    write("transposed_nulls", BYTES, nulls, encoded, writer_set=4)
    # Every width, with numbers that fill it; numbers count modulo their width, so that more bits of them mean nothing.
    widths = [1, 2, -2, 4, -4, 8, -8]
    rows = [tuple(noise[7 * i + at] >> (64 - 8 * abs(width)) for at, width in enumerate(widths)) for i in range(20)]
    lanes = [[signed(number) for number in lane] for lane in zip(*rows)]
    encoded = transposed((7, raw(widths)), [raw(lane) for lane in lanes])
    write("transposed_widths", BYTES, structures(widths, rows), encoded, is_canonical=False, writer_set=4)
    above = [[signed(number + (noise[500 + at] << 8 * abs(width))) for at, number in enumerate(lane)] for lane, width in zip(lanes, widths)]
    encoded = transposed((7, raw(widths)), [raw(lane) for lane in above])
    write("transposed_modulo", BYTES, structures(widths, rows), encoded, is_canonical=False, writer_set=4)
    # Lanes of every encoding that has parts, of 300 rows.
    walk = [5]
    for x in noise[:299]:
        walk.append(walk[-1] + x % 5 - 2)
    states = [noise[i] >> 52 for i in range(6)]
    few = [0, 0x1234, 0xABCD, 0xFFFF]
    codes = [x >> 62 for x in noise[300:600]]
    rows = [(walk[i], states[i // 50], few[codes[i]], 60 * (noise[i] >> 60), 9) for i in range(300)]
    lanes = [
        delta(walk, -2, 3),
        runs(6, raw(states), raw([50] * 6)),
        distinct(4, raw(few), frame(codes, 0, 2)),
        grid(0, 60, frame([row[3] // 60 for row in rows], 0, 4)),
        const(9),
    ]
    widths = [4, 2, -2, 2, 1]
    encoded = transposed((5, raw(widths)), lanes)
    write("transposed_lanes", BYTES, structures(widths, rows), encoded, is_canonical=False, writer_set=4)
    # Text, with characters of several bytes across lanes.
    words = ["\u6c34%d" % (i * 7 % 10) for i in range(30)]
    raws = [w.encode() for w in words]
    pairs = [int.from_bytes(r[:2], "big") for r in raws], [int.from_bytes(r[2:], "big") for r in raws]
    assert all(len(r) == 4 for r in raws)
    encoded = transposed((2, const(2)), [const(pairs[0][0]), frame(pairs[1], min(pairs[1]), 4)])
    write("transposed_text", TEXT, words, encoded, is_canonical=False, writer_set=4)
    write("transposed_one_row", BYTES, [b"12345678"], transposed((1, const(-8)), [const(int.from_bytes(b"12345678", "little"))]), is_canonical=False, writer_set=4)
    # The longest values: 128 lanes of eight bytes.
    long = [b"lanes of eight b" * 64] * 3
    halves = [int.from_bytes(long[0][at : at + 8], "big") for at in (0, 8)]
    lanes = [const(number) for number in halves] * 64
    write("transposed_longest", BYTES, long, transposed((128, const(8)), lanes), is_canonical=False, writer_set=4)


if __name__ == "__main__":
    integers()
    floats()
    booleans()
    texts()
    second_set()
    fourth_set()
