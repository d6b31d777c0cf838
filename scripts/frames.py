#!/usr/bin/env python3
"""Asks PostgreSQL what aggregates over random frames are, for testdata/frames/postgresql.jsonl.

    scripts/frames.py "psql -h /tmp/pg -U postgres" > testdata/frames/postgresql.jsonl

The first line of the output is the table, each other one an aggregate, a frame, and what psql printed for each row; null is
NULL. It is the same for the same seed. crates/query/tests/sql/frames.rs compares.
"""

import json
import random
import shlex
import subprocess
import sys

SEED = 20261123
FRAMES_PER_AGGREGATE = 7

# i is different in each row, r too but with gaps, k is not; f and h are floats that spoil sums, c and d are tame ones.
ROWS = """
(0, 0, 0, '1.5', '2', '0.1', '1', 9223372036854775807, 4, true, 'a')
(1, 1, 0, 'NaN', '1', '0.2', '3', 0, -7, true, NULL)
(2, 3, NULL, '2.5', '-1', '0.3', '2', -9223372036854775808, 12, true, 'bc')
(3, 4, 1, '1e20', '3', '-1.7', '8', NULL, NULL, NULL, 'd')
(4, 7, 1, '1', '1e-20', '12.25', '-4', 255, 40, false, 'e')
(5, 8, 1, '-1e20', '5', NULL, '6', 1, 1, true, 'f')
(6, 9, 2, '7', 'Infinity', '0.7', '5', -1, -3, true, NULL)
(7, 15, 2, NULL, '4', '3.3', '5', NULL, 22, NULL, 'g')
(8, 16, 3, '-Infinity', '6', '3.3', '5', 4096, 5, true, 'h')
(9, 17, 5, '-0.0', '-0.0', '3.3', '1', 3, -50, true, 'i')
(10, 20, 5, '-0.0', '9', '-6.1', NULL, 9223372036854775806, 8, false, 'j')
(11, 21, 5, '1e-20', '2.5', '0.1', '7', 6, 9, false, 'k')
(12, 22, 6, '3', '0.1', '0.2', '-2', 12, NULL, true, NULL)
(13, 30, 8, '0.1', '8', '1e15', '11', NULL, 17, true, 'l')
(14, 31, 8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
(15, 32, 9, '0.2', '-3', '4.5', '0.5', 9007199254740993, 2, true, 'm')
"""
TABLE = (
    "(SELECT i, r, k, f::double precision AS f, h::double precision AS h, c::double precision AS c, "
    "d::double precision AS d, n::bigint AS n, m::bigint AS m, b, s FROM (VALUES "
    + ", ".join(ROWS.strip().split("\n"))
    + ") AS v(i, r, k, f, h, c, d, n, m, b, s)) AS t"
)

ONE = "sum avg var_pop var_samp variance stddev stddev_pop stddev_samp".split()
TWO = "covar_pop covar_samp corr regr_slope regr_intercept regr_r2 regr_avgx regr_avgy regr_sxx regr_syy regr_sxy regr_count".split()
# Their answers depend on the order of rows, which k leaves open.
ORDERED = [f"{name}({value})" for name in ONE for value in "fc"]
ORDERED += [f"{name}({y}, {x})" for name in TWO for y, x in ("fh", "cd")]
ORDERED += ["string_agg(s, ',')", "array_to_string(array_agg(m), ',', '-')"]
FREE = "min(f) max(f) min(n) max(n) min(s) max(s) count(f) count(*) bool_and(b) bool_or(b) every(b)".split()
FREE += "bit_and(n) bit_or(n) bit_xor(n) sum(m)".split()


def frame(rng, is_free):
    bounds = ["UNBOUNDED PRECEDING", "PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "FOLLOWING", "UNBOUNDED FOLLOWING"]
    unit = rng.choice(["ROWS", "RANGE", "GROUPS"])
    while True:
        first, last = sorted(rng.choices(range(len(bounds)), weights=[1, 3, 3, 3, 2, 2, 1], k=2))
        start, end = [rng.choice([0, 1, 1, 2, 3, 5, 8]) for _ in range(2)]
        at = [0, -start, -start, 0, start, start, 0][first], [0, -end, -end, 0, end, end, 0][last]
        # What begins after its end has no rows; the planner refuses it.
        is_known = 0 < first < 6 and 0 < last < 6
        if first < 6 and last > 0 and (not is_known or at[0] <= at[1]):
            break
    text = [f"{n} {bounds[b]}" if bounds[b] in ("PRECEDING", "FOLLOWING") else bounds[b] for b, n in ((first, start), (last, end))]
    by = rng.choice(["i", "r", "k"] if is_free and unit != "ROWS" else ["i", "r"]) + rng.choice(["", " DESC"])
    parted = rng.choice(["", "", "PARTITION BY i % 2 "])
    return f"{parted}ORDER BY {by} {unit} BETWEEN {text[0]} AND {text[1]}"


def main():
    rng = random.Random(SEED)
    asked = []
    for aggregate in ORDERED + FREE:
        for _ in range(FRAMES_PER_AGGREGATE):
            asked.append((aggregate, frame(rng, aggregate in FREE)))
    script = ""
    for aggregate, over in asked:
        call = aggregate.replace(")", f") OVER ({over})", 1) if "array" not in aggregate else aggregate.replace("(m)", f"(m) OVER ({over})")
        script += f"SELECT {call} FROM {TABLE} ORDER BY i;\n\\echo ===\n"
    psql = shlex.split(sys.argv[1]) + ["-X", "-A", "-t", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1"]
    answers = subprocess.run(psql, input=script, capture_output=True, text=True, check=True).stdout.split("===\n")
    print(json.dumps({"table": TABLE}))
    for (aggregate, over), answer in zip(asked, answers):
        rows = [None if row == "NULL" else row for row in answer[:-1].split("\n")]
        print(json.dumps({"aggregate": aggregate, "over": over, "rows": rows}))


main()
