#!/usr/bin/env python3
"""Summaries of two-step aggregates, packed from docs/format/summary.md alone, and what a reader must answer.

    python3 golden/summary-1/make.py [--check]

Answers are arithmetic on the rows that stand here, or the formulas of the papers that the code names; nothing is asked of the
program. A file NAME.bin has the bytes, answers.txt a line `NAME question answer` for each question.
"""
import math
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
SECOND = 10**9
SINCE_2000 = 946_684_800


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def u8(v): return struct.pack("<B", v)
def u64(v): return struct.pack("<Q", v)
def i64(v): return struct.pack("<q", v)
def f64(v): return struct.pack("<d", v)
def flag(v): return u8(1 if v else 0)
def text(v): return u64(len(v.encode())) + v.encode()
def sample(s): return i64(s[0]) + f64(s[1])


def scalar(kind, v):
    return u8(kind) + {0: flag, 1: i64, 2: f64, 3: i64, 4: text}[kind](v)


def powers(values):
    mean = sum(values) / len(values)
    return [sum((v - mean) ** p for v in values) for p in (2, 3, 4)]


def moments(values):
    return u64(len(values)) + f64(sum(values)) + b"".join(map(f64, powers(values)))


def pairs(ys, xs):
    my, mx = sum(ys) / len(ys), sum(xs) / len(xs)
    return moments(ys) + moments(xs) + f64(sum((y - my) * (x - mx) for y, x in zip(ys, xs)))


FILES, ANSWERS = {}, []


def put(name, kind, contents, **answers):
    body = b"\x4e\xa9" + u8(1) + u8(kind) + contents
    FILES[f"{name}.bin"] = body + struct.pack("<I", crc32c(body))
    for question, answer in answers.items():
        ANSWERS.append(f"{name} {question} {answer}")


# 1: moments of 1, 2, 3, 4. The mean is 2.5, the squares of the distances are 2.25, 0.25, 0.25, 2.25.
put("moments", 1, moments([1.0, 2.0, 3.0, 4.0]), count=4, mean=2.5, variance=5 / 3, skewness=0.0)
put("moments_empty", 1, u64(0) + f64(0.0) * 4, count=0, mean="none")
# 2: y = 3x - 1.
put("pairs", 2, pairs([2.0, 5.0, 8.0], [1.0, 2.0, 3.0]), slope=3.0, intercept=-1.0, correlation=1.0)

# 3: a counter that goes 5, 8, 2 (a reset, 8 are lost), 6: it has grown by 3 + 2 + 4 = 9 in 30 s.
rows = [(0, 5.0), (10 * SECOND, 8.0), (20 * SECOND, 2.0), (30 * SECOND, 6.0)]
made_up = [5.0, 8.0, 10.0, 14.0]
seconds = [t / SECOND - SINCE_2000 for t, _ in rows]
body = b"".join(map(sample, [rows[0], rows[1], rows[2], rows[3]]))
body += f64(8.0) + u64(1) + u64(3) + pairs(made_up, seconds)
bounds = flag(True) + i64(0) + i64(40 * SECOND)
put("counter", 3, body + bounds, delta=9.0, rate=0.3, resets=1, changes=3)
# 4: a gauge that goes 5, 8, 2, 6: by 1 in 30 s.
gauge = b"".join(map(sample, rows)) + f64(0.0) + u64(0) + u64(3) + pairs([5.0, 8.0, 2.0, 6.0], seconds)
put("gauge", 4, gauge + flag(False), delta=1.0, rate=1 / 30, resets=0)

# 5: 10 for 10 s, then on a line to 20 in 10 s: (10 x 10 + 15 x 10) / 20.
linear = flag(True) + sample((0, 10.0)) + sample((20 * SECOND, 20.0)) + f64((100.0 + 150.0) * SECOND)
put("time_weight", 5, linear, average=12.5)

# 6: trades 10 at 0, 14 at 1, 8 at 2, 12 at 3; volumes 1, 2, 1, 1: the mean price is (10 + 28 + 8 + 12) / 5.
candle = b"".join(map(sample, [(0, 10.0), (1, 14.0), (2, 8.0), (3, 12.0)])) + flag(True) + f64(5.0) + f64(58.0)
put("candlestick", 6, candle, open=10.0, high=14.0, low=8.0, close=12.0, vwap=11.6)

# 7: the two largest of some numbers, with a text beside each.
largest = flag(True) + u64(2) + u64(2)
largest += scalar(2, 9.5) + flag(True) + scalar(4, "a") + scalar(2, 7.0) + flag(True) + scalar(4, "b")
put("max_n_by", 7, largest, first=9.5, second=7.0)
put("min_n", 7, flag(False) + u64(3) + u64(1) + scalar(1, -4) + flag(False), first=-4)

# 8: buckets of a sketch whose error is 0.1: gamma = 1.1 / 0.9, a value v > 0 is in bucket ceil(log_gamma v).
gamma = 1.1 / 0.9
bucket = lambda v: math.ceil(math.log(v) / math.log(gamma))
middle = lambda b: 2 * gamma**b / (gamma + 1)
above = sorted({bucket(v): 0 for v in (1.5, 40.0)})
udd = u64(20) + f64(0.1) + u8(0) + f64(-3.0 + 1.5 + 40.0) + u64(2) + u64(0) + u64(0)
udd += u64(1) + i64(bucket(3.0)) + u64(1)
udd += u64(2) + b"".join(i64(b) + u64(1) for b in above)
# Five values: -3, 0, 0, 1.5, 40. The first, the third and the last.
put("uddsketch", 8, udd, count=5, lowest=-middle(bucket(3.0)), median=0.0, highest=middle(bucket(40.0)))

# 9: three centroids.
digest = u64(10) + u64(4) + f64(10.0) + f64(1.0) + f64(4.0)
digest += u64(3) + f64(1.0) + u64(1) + f64(2.5) + u64(2) + f64(4.0) + u64(1)
put("tdigest", 9, digest, count=4, mean=2.5, lowest=1.0, highest=4.0)


# 10: 16 registers. Ertl 2017, algorithm 6, with sums in place of the loops.
def ertl(registers, bits):
    size, q = 1 << bits, 64 - bits
    counts = [registers.count(k) for k in range(q + 2)]

    def sigma(x):
        return math.inf if x == 1 else x + sum(x ** (2**k) * 2 ** (k - 1) for k in range(1, 60))

    def tau(x):
        if x in (0.0, 1.0):
            return 0.0
        return (1 - x - sum((1 - x ** (2.0**-k)) ** 2 * 2.0**-k for k in range(1, 60))) / 3

    z = size * tau(1 - counts[q + 1] / size)
    for k in range(q, 0, -1):
        z = 0.5 * (z + counts[k])
    z += size * sigma(counts[0] / size)
    return size * size / (2 * math.log(2) * z)


few = {3: 2, 9: 1}
put("hyperloglog_few", 10, u8(4) + flag(False) + u64(2) + b"".join(u64(r) + u8(v) for r, v in few.items()),
    count=ertl([few.get(r, 0) for r in range(16)], 4))
every = [1, 2, 3, 1, 1, 2, 4, 1, 2, 1, 3, 5, 1, 2, 1, 1]
put("hyperloglog_all", 10, u8(4) + flag(True) + u64(16) + bytes(every), count=ertl(every, 4))

# 11: a in 6 of 10 values, b in 3, of which one may be another's.
frequent = f64(0.25) + u64(0) + u64(5) + u64(10) + u64(2) + scalar(4, "a") + u64(6) + u64(0) + scalar(4, "b") + u64(3) + u64(1)
put("freq_agg", 11, frequent, most="a", most_min=0.6, second_min=0.2, second_max=0.3)

# 12: on from 0, off from 5 to 7, on to 10.
states = flag(False) + u64(2) + scalar(4, "on") + i64(8) + scalar(4, "off") + i64(2) + i64(0) + i64(10) + u64(0)
states += u64(3) + u64(0) + i64(0) + i64(5) + u64(1) + i64(5) + i64(7) + u64(0) + i64(7) + i64(10)
put("state_agg", 12, states, on=8, off=2, at_6="off")
compact = flag(True) + u64(2) + scalar(1, 1) + i64(8) + scalar(1, 2) + i64(2) + i64(0) + i64(10) + u64(0) + u64(0)
put("compact_state_agg", 12, compact, state_1=8, state_2=2)

# 13: alive from 10 to 40 and from 90 on, of 0 to 100: 40 of 100; the last range goes beyond the end.
beats = i64(0) + i64(100) + i64(30) + u64(2) + i64(10) + i64(40) + i64(90) + i64(120)
put("heartbeat_agg", 13, beats, uptime=40, downtime=60)

FILES["answers.txt"] = ("\n".join(ANSWERS) + "\n").encode()
for name, content in FILES.items():
    path = HERE / name
    if "--check" in sys.argv:
        assert path.read_bytes() == content, f"{name} is not what make.py packs"
    else:
        path.write_bytes(content)
