#!/usr/bin/env python3
"""The same statements over the wire to PostgreSQL 15 and to our program: rows, types, their text and binary forms, SQLSTATEs.

Does: make statements from a seed, send each to both by the extended query, once for text and once for binary results, and
compare the columns' names and types, the bytes of all values and the code of an error. PostgreSQL is started here, in a folder
of its own. Does not: skip where PostgreSQL or psycopg is missing; that fails.

    python3 scripts/postgresql/differential.py [--program FILE] [--seed N] [--statements N] [--show]

What differs and is meant to is in docs/guide/postgresql.md ("What differs"); such statements are not made, or say so here.
"""

import argparse
import decimal
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, ".."))
import clients  # noqa: E402
import oracle  # noqa: E402

servers = clients.servers


class Reference:
    """PostgreSQL in a folder of its own, on a socket in it; `options` are those of its program."""

    def __init__(self, options="-c fsync=off"):
        self.options = options
        self.programs = oracle.find_postgresql()
        if self.programs is None:
            raise RuntimeError("no initdb in /usr/lib/postgresql/*/bin or the PATH; install postgresql")
        self.before = []
        if os.geteuid() == 0:
            self.before = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.folder = tempfile.mkdtemp(prefix="postgresql-")
        os.chmod(self.folder, 0o777)
        self.data = os.path.join(self.folder, "data")

    def run(self, program, *arguments):
        command = self.before + [os.path.join(self.programs, program), *arguments]
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (program, done.stderr))

    def __enter__(self):
        self.run("initdb", "-D", self.data, "-U", "postgres", "--locale=C.UTF-8", "-E", "UTF8", "-A", "trust", "--no-sync")
        options = "-c listen_addresses='' -k %s -c timezone=UTC %s" % (self.folder, self.options)
        self.run("pg_ctl", "-D", self.data, "-w", "-l", os.path.join(self.folder, "log"), "-o", options, "start")
        return self

    def __exit__(self, *_):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


# Tables that both have: with a key, without one, over time.
SETUP = [
    "CREATE TABLE a (id bigint PRIMARY KEY, n bigint, f double precision, s text, b boolean)",
    "CREATE TABLE o (id bigint PRIMARY KEY, a_id bigint, s text NOT NULL)",
    "CREATE TABLE k (i integer, s text, f double precision)",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'",
    "CREATE TABLE e (id bigint PRIMARY KEY, m mood, i integer, j jsonb)",
    """CREATE TABLE r (id bigint PRIMARY KEY, i int[], t text[], f double precision[], z timestamptz[], b boolean[], u uuid[], d numeric(10,2)[],
                       y date[], l bigint[] NOT NULL DEFAULT '{}', s smallint[], v varchar(5)[])""",
    """INSERT INTO r (id, i, t, f, z, b, u, d, y, l, s, v) VALUES
       (1, '{1,2,NULL}', '{a,"b c",NULL,""}', '{1.5,-0.25,NaN}', '{2024-01-01 00:00:00+00}', '{t,f,NULL}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '{1,2.345}', '{2024-02-29}', '{9}', '{-3}', '{ab}'),
       (2, ARRAY[3,2], ARRAY['x,y', 'q"r', 'z\\w', 'NULL'], '{}', NULL, '{}', NULL, ARRAY[0.5], NULL, ARRAY[7, 8], NULL, ARRAY['a', NULL])""",
    "INSERT INTO r (id) VALUES (3)", "INSERT INTO r (id, i, t) SELECT 4, array_agg(id), array_agg(s) FROM (SELECT 5 AS id, 'five' AS s) q",
    "CREATE TABLE h (time timestamptz NOT NULL, host text, v double precision[], n int[])",
    "INSERT INTO h VALUES ('2024-01-01 00:00:00+00', 'a', '{1,2,3}', '{1}'), ('2024-01-01 00:00:10+00', 'a', '{}', NULL), ('2024-01-01 00:00:20+00', 'b', NULL, '{NULL,5}')",
    "CREATE TABLE js (id bigint PRIMARY KEY, j jsonb)",
    """INSERT INTO js VALUES (1, '[]'), (2, 'null'), (3, '"b"'), (4, '"aa"'), (5, '-10.5'), (6, '-10'), (7, '9'), (8, '10'), (9, 'true'), (10, 'false'),
       (11, '[1]'), (12, '[1, 2]'), (13, '["a"]'), (14, '{}'), (15, '{"a": 1}'), (16, '{"a": 2}'), (17, '{"b": 0}'), (18, '{"aa": 0}'), (19, '{"a": 0, "b": 0}'),
       (20, NULL), (21, '10.0'), (22, '[1.0]'), (23, '[[]]'), (24, '[{}]'), (25, '""'), (26, '1e3'), (27, '0.001'), (28, '{"a": {"b": [1, "x"]}}'), (29, '9')""",
    """INSERT INTO e VALUES (1, 'happy', 4, '{"a": [1, {"b": 2}], "k": "v"}'), (2, 'sad', NULL, '[]'), (3, NULL, -7, NULL), (4, 'meh', 2, '{"a": []}'), (5, 'ok', 9, '"k"')""",
]


class Statements:
    """Statements from a seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        # So that the others of a seed stay what they were.
        self.of_keyless = random.Random(seed)

    def pick(self, *choices):
        return self.rng.choice(choices)

    # Expressions by type. `deep` bounds how they nest.
    def integer(self, deep=2):
        if deep == 0 or self.rng.random() < 0.3:
            return self.pick("0", "1", "-7", "42", "n", "id", "9223372036854775807", "NULL::bigint", "3000000000", "'12'::bigint")
        one, other = self.integer(deep - 1), self.integer(deep - 1)
        return self.pick(
            "(%s + %s)" % (one, other), "(%s - %s)" % (one, other), "(%s * %s)" % (one, other), "(%s / %s)" % (one, other),
            "(%s %% %s)" % (one, other), "abs(%s)" % one, "coalesce(%s, %s)" % (one, other), "(- %s)" % one,
            "length(%s)::bigint" % self.text(deep - 1), "CASE WHEN %s THEN %s ELSE %s END" % (self.truth(deep - 1), one, other),
            "nullif(%s, %s)" % (one, other), "greatest(%s, %s)" % (one, other), "least(%s, %s)" % (one, other),
            "strpos(%s, %s)::bigint" % (self.text(deep - 1), self.text(deep - 1)),
        )

    def float(self, deep=2):
        if deep == 0 or self.rng.random() < 0.3:
            return self.pick("0.5::double precision", "f", "-1e10::float8", "'NaN'::float8", "'Infinity'::float8", "1e-7::float8", "NULL::float8")
        one, other = self.float(deep - 1), self.float(deep - 1)
        return self.pick(
            "(%s + %s)" % (one, other), "(%s * %s)" % (one, other), "abs(%s)" % one, "coalesce(%s, %s)" % (one, other),
            "floor(%s)" % one, "ceil(%s)" % one, "(%s)::float8" % self.integer(deep - 1), "sqrt(abs(%s))" % one,
            "CASE WHEN %s THEN %s END" % (self.truth(deep - 1), one), "trunc(%s)" % one,
        )

    def text(self, deep=2):
        if deep == 0 or self.rng.random() < 0.3:
            return self.pick("'abc'", "s", "''", "'Zürich'", "'a''b'", "NULL::text", "'  x '", "'%_'", "'true'", "'12'")
        one, other = self.text(deep - 1), self.text(deep - 1)
        return self.pick(
            "(%s || %s)" % (one, other), "upper(%s)" % one, "lower(%s)" % one, "trim(%s)" % one, "reverse(%s)" % one,
            "substr(%s, %d, %d)" % (one, self.rng.randrange(-2, 5), self.rng.randrange(0, 4)), "coalesce(%s, %s)" % (one, other),
            "replace(%s, 'a', %s)" % (one, other), "left(%s, %d)" % (one, self.rng.randrange(-3, 4)), "right(%s, 2)" % one,
            "lpad(%s, 5, '*')" % one, "repeat(%s, %d)" % (one, self.rng.randrange(-1, 3)), "split_part(%s, 'b', 1)" % one,
            "(%s)::text" % self.integer(deep - 1), "(%s)::text" % self.truth(deep - 1),
            # Part of a float's text is not known as one, and a float's text differs as the guide says.
            "(%s)::text" % (self.float(deep - 1) if deep == 2 else self.integer(deep - 1)),
            "initcap(%s)" % one, "concat(%s, %s)" % (one, other), "ltrim(%s)" % one, "btrim(%s, 'a')" % one,
            "translate(%s, 'ab', 'x')" % one,
        )

    def truth(self, deep=2):
        if deep == 0 or self.rng.random() < 0.2:
            return self.pick("true", "false", "b", "NULL::boolean")
        return self.pick(
            "(%s %s %s)" % (self.integer(deep - 1), self.pick("=", "<>", "<", ">="), self.integer(deep - 1)),
            "(%s %s %s)" % (self.text(deep - 1), self.pick("=", "<>", "<", ">"), self.text(deep - 1)),
            "(%s %s %s)" % (self.float(deep - 1), self.pick("=", "<", ">"), self.float(deep - 1)),
            "(%s %s %s)" % (self.truth(deep - 1), self.pick("AND", "OR"), self.truth(deep - 1)),
            "(NOT %s)" % self.truth(deep - 1), "(%s IS NULL)" % self.text(deep - 1), "(%s IS NOT NULL)" % self.integer(deep - 1),
            "(%s LIKE 'a%%')" % self.text(deep - 1), "(%s IN (1, 42, NULL))" % self.integer(deep - 1),
            "(%s BETWEEN -5 AND %s)" % (self.integer(deep - 1), self.integer(deep - 1)), "(%s IS TRUE)" % self.truth(deep - 1),
            "(%s IS DISTINCT FROM %s)" % (self.integer(deep - 1), self.integer(deep - 1)), "(%s ~ '^a')" % self.text(deep - 1),
        )

    def moment(self):
        base = self.pick("timestamptz '2024-02-29 12:34:56.789012+00'", "timestamp '1999-12-31 23:59:59'", "date '2024-03-31'",
                         "timestamptz '2024-05-01 00:00:00+02'")
        zoned = base if not base.startswith("date") else "timestamp '2024-03-31 10:00:00'"
        return self.pick(
            base, "(%s + interval '1 month')" % base, "(%s - interval '36 hours')" % base, "date_trunc('%s', %s)" % (self.pick("day", "month", "hour", "year", "week", "quarter"), zoned),
            "extract(%s FROM %s)" % (self.pick("year", "month", "day", "dow", "doy", "week", "quarter"), base),
            "(%s)::date" % base, "(%s < now())" % base,
            "to_date('%s', '%s')" % self.pick(("20240229", "YYYYMMDD"), ("2024-1-5", "YYYY-MM-DD"), ("05 Dec 2000", "DD Mon YYYY"), ("12-31-99", "MM-DD-YY"), ("2024 060", "YYYY DDD")),
            "to_timestamp('%s', '%s')" % self.pick(("2024/05/01 13:14:15", "YYYY-MM-DD HH24:MI:SS"), ("2024-05-01 1:14 PM", "YYYY-MM-DD HH12:MI AM"),
                                                   ("December 5, 2000", "Month DD, YYYY"), ("20240501131415250", "YYYYMMDDHH24MISSMS")),
        )

    def any(self):
        return self.pick(self.integer, self.float, self.text, self.truth)()

    def bytea(self, deep=1):
        if deep == 0 or self.rng.random() < 0.4:
            return self.pick("'\\x00ff'::bytea", "''::bytea", "'\\x'::bytea", "'ab\\\\\\377'::bytea", "'\\xDEADbeef'::bytea", "NULL::bytea",
                             "(s::bytea)")
        one = self.bytea(deep - 1)
        return self.pick("coalesce(%s, %s)" % (one, self.bytea(deep - 1)), "CASE WHEN %s THEN %s END" % (self.truth(0), one),
                         "decode('%s', 'hex')" % self.pick("", "00", "FFee"))

    def of_bytes(self):
        one = self.bytea()
        return self.pick("length(%s)" % one, "octet_length(%s)" % one, "bit_length(%s)" % one, "encode(%s, 'hex')" % one,
                         "(%s %s %s)" % (one, self.pick("=", "<>", "<", ">="), self.pick(self.bytea(), "'\\x00ff'", "'abc'")),
                         "(%s IN ('\\x', '\\x00ff'))" % one, "encode(%s(%s), 'hex')" % (self.pick("sha256", "sha384", "sha512"), one),
                         "substring(%s from %d for %d)" % (one, self.rng.randrange(-1, 4), self.rng.randrange(0, 3)), "substr(%s, %d)" % (one, self.rng.randrange(-1, 4)), "position('\\xff' in %s)" % one,
                         "position(''::bytea in %s)" % one, "overlay(%s placing '\\xaabb' from %d)" % (one, self.rng.randrange(1, 4)), "overlay(%s placing '\\xaabb' from %d for %d)" % (one, self.rng.randrange(1, 3), self.rng.randrange(0, 3)),
                         "trim('\\x00'::bytea from %s)" % one, "btrim(%s, '\\x00ff')" % one, "ltrim(%s, '\\x00ad')" % one, "(%s || %s)" % (one, self.bytea(0)), "(%s || '\\x01')" % one, "encode(%s, 'escape')" % one,
                         "decode('a\\000\\\\b', 'escape')", "set_byte('\\x0aff80'::bytea, %d, %d)" % (self.rng.randrange(0, 4), self.rng.randrange(0, 300)), "get_bit('\\x0aff80'::bytea, %d)" % self.rng.randrange(0, 25),
                         "set_bit('\\x0aff80'::bytea, %d, %d)" % (self.rng.randrange(0, 24), self.rng.randrange(0, 2)), "length(%s || s::bytea)" % one,
                         "get_byte('\\x0aff80'::bytea, %d)" % self.rng.randrange(0, 3), "convert_to(s, 'UTF8')", "convert_from(convert_to(s, 'UTF8'), 'utf-8')")

    def json(self, deep=2):
        if deep == 0 or self.rng.random() < 0.3:
            return self.pick("""'{"a": 1, "b": [1, 2.50, "x"], "c": {"d": null, "e": true}}'::jsonb""", "'[]'::jsonb", "'{}'::jsonb", "'null'::jsonb", "'7'::jsonb",
                             """'["a", "b", [1, {"a": "z"}]]'::jsonb""", "'\"text\"'::jsonb", "to_jsonb(n)", "to_jsonb(s)", "to_jsonb(b)", "NULL::jsonb")
        one, other = self.json(deep - 1), self.json(deep - 1)
        return self.pick(
            "(%s -> %s)" % (one, self.pick("'a'", "'b'", "'c'", "0", "-1", "2", "'nothing'")), "(%s #> %s)" % (one, self.pick("'{b,1}'", "'{c,e}'", "'{}'", "'{2,1,a}'")),
            "jsonb_build_object('a', %s, coalesce(s, '?'), n)" % one if deep == 2 else "jsonb_build_object('k', %s)" % one, "jsonb_build_array(%s, n, NULL, b)" % one,
            "jsonb_strip_nulls(%s)" % one, "(%s || %s)" % ("'[1]'::jsonb", other), "jsonb_extract_path(%s, 'b', '0')" % one,
            "to_jsonb(array[n, id])", "(jsonb_build_object('a', 1, 'b', 2) - 'a')")

    def of_json(self):
        one = self.json()
        return self.pick(
            "(%s)" % one, "(%s ->> %s)" % (one, self.pick("'a'", "'b'", "0")), "(%s #>> '{c,e}')" % one, "(%s)::text" % one, "jsonb_typeof(%s)" % one,
            "(%s @> %s)" % (one, self.pick("'{\"a\": 1.0}'", "'[1]'", "'\"a\"'", "'{}'", self.json(0))), "(%s <@ '{\"a\": 1, \"z\": 2}')" % one,
            "jsonb_exists(%s, 'a')" % one, "(%s ? '%s')" % (one, self.pick("a", "b", "text")), "(%s %s array['a', 'c'])" % (one, self.pick("?|", "?&")), "jsonb_extract_path_text(%s, 'c', 'e')" % one)

    def of_jsons(self):
        """Several rows of one, or one of several."""
        return self.pick(
            "SELECT jsonb_agg(%s ORDER BY id) AS j FROM a" % self.pick("n", "s", "b", "to_jsonb(id)", "jsonb_build_object('n', n)"),
            "SELECT b, jsonb_object_agg(id, %s ORDER BY id) AS j FROM a GROUP BY b ORDER BY b" % self.pick("n", "s"),
            "SELECT jsonb_agg(s ORDER BY id) FILTER (WHERE n > 0) AS j FROM a", "SELECT json_agg(n ORDER BY id) AS j FROM a WHERE false",
            "SELECT * FROM generate_series(%d, %d, %d) AS g(x)" % (self.rng.randrange(-3, 3), self.rng.randrange(-3, 6), self.pick(1, 2, -1)),
            "SELECT generate_series(1, %d) AS x" % self.rng.randrange(0, 4), "SELECT x FROM generate_series(1, 3) AS x ORDER BY x DESC",
            "SELECT * FROM generate_series(timestamptz '2024-03-30 00:00:00+00', '2024-04-01', interval '%d hours') AS t" % self.pick(6, 24, 7),
            "SELECT value FROM jsonb_array_elements('[1, {\"a\": 2}, null]'::jsonb) AS t(value)", "SELECT jsonb_array_elements_text('[\"x\", null, 2]'::jsonb) AS v",
            "SELECT jsonb_object_keys('{\"bb\": 1, \"a\": 2}'::jsonb) AS k")

    def of_enumeration(self):
        label = self.pick("'sad'", "'ok'", "'happy'", "'meh'::mood", "'ok'::mood")
        return self.pick(
            "SELECT id, m FROM e ORDER BY m%s, id" % self.pick("", " DESC", " NULLS FIRST", " DESC NULLS LAST"), "SELECT id FROM e WHERE m %s %s ORDER BY id" % (
                self.pick("=", "<>", "<", "<=", ">", ">="), label), "SELECT id FROM e WHERE m BETWEEN 'sad' AND %s ORDER BY id" % label,
            "SELECT %s::text AS x" % label, "SELECT count(*) AS n FROM e GROUP BY m ORDER BY m NULLS FIRST", "SELECT id FROM e WHERE m IN ('sad', 'meh') ORDER BY id",
            "SELECT 'angry'::mood", "UPDATE e SET m = 'angry' WHERE id = 1", "INSERT INTO e VALUES (9, 'angry')", "DROP TYPE mood", "DROP TYPE nosuch", "CREATE TABLE t (id bigint PRIMARY KEY, m nosuch)")

    def of_rows(self):
        """Functions of several rows that take columns of the table before them, and sums and means of integers."""
        return self.pick(
            "SELECT e.id, x.value FROM e, jsonb_array_elements(e.j -> 'a') x WHERE e.id < 5 ORDER BY e.id, x.value::text", "SELECT id, k FROM e, jsonb_object_keys(j) AS k WHERE id IN (1, 4) ORDER BY 1, 2",
            "SELECT id, x FROM e, generate_series(1, i) AS x ORDER BY 1, 2", "SELECT id, x, y FROM e, generate_series(1, i) x, generate_series(x, %d) y ORDER BY 1, 2, 3" % self.rng.randrange(4),
            "SELECT e.id, u.v, u.n FROM e, unnest(array[e.id, e.i]) WITH ORDINALITY AS u(v, n) ORDER BY 1, 3", "SELECT id, x ->> 'b' AS b FROM e CROSS JOIN LATERAL jsonb_array_elements(j -> 'a') x WHERE id < 5 ORDER BY 1, 2",
            "SELECT sum(id), avg(id), sum(i), avg(i), sum(id) / %d AS part FROM e" % self.pick(1, 2, 3, 7, 144), "SELECT i > 2 AS b, sum(id), avg(i) FROM e GROUP BY 1 ORDER BY 1",
            "SELECT id, sum(id) OVER (ORDER BY id), avg(i) OVER (ORDER BY id ROWS %d PRECEDING) FROM e ORDER BY id" % self.rng.randrange(3),
            "SELECT sum(DISTINCT n), avg(n) FROM a", "SELECT sum(n) / count(*) AS x, avg(id) + 1 AS y FROM a HAVING count(*) > 0")

    def ints(self, deep=1):
        if deep == 0 or self.rng.random() < 0.3:
            return self.pick("i", "'{1,2}'::int[]", "'{}'::int[]", "'{NULL,3}'::int[]", "NULL::int[]", "i[2:3]", "i[:1]", "i[2:]", "i[0:9]", "l::int[]")
        one, other = self.ints(deep - 1), self.ints(deep - 1)
        return self.pick("(%s || %s)" % (one, other), "(%s || '{7}')" % one, "array_cat(%s, %s)" % (one, other), "CASE WHEN id > 1 THEN %s ELSE %s END" % (one, other),
                         "coalesce(%s, %s)" % (one, other), "(%s)[%d:%d]" % (one, self.rng.randrange(-1, 3), self.rng.randrange(0, 4)))

    def of_arrays(self):
        """Columns of arrays: their forms, operators and functions."""
        one, other = self.ints(), self.ints()
        value = self.pick(
            one, "(%s)[%d]" % (one, self.rng.randrange(-1, 4)), "cardinality(%s)" % one, "array_length(%s, 1)" % one, "(%s @> %s)" % (one, other), "(%s <@ %s)" % (one, other),
            "(%s && %s)" % (one, other), "(%s = %s)" % (one, other), "(%s <> '{1,2}')" % one, "(l < %s::bigint[])" % self.pick("'{9}'", "'{7,9}'", "'{}'"), "(2 = ANY (%s))" % one, "(2 <> ALL (%s))" % one, "(id = ANY ('{1,3,NULL}'))",
            "(2 > ANY (%s))" % one, "(%s)::text" % one, "(%s IS NULL)" % one, "array_to_string(%s, ',', '*')" % one, "array_position(%s, 2)" % one, "array_dims(%s)" % one,
            "t", "t[2]", "f", "z", "b", "u", "d", "y", "l", "s", "v", "t::text", "b::text", "l::text", "u::text", "d::text", "y::text", "(t @> '{a}')", "(t && ARRAY['x,y'])", "(t || 'q'::text)", "('a' = ANY (t))",
            "array_append(t, 'q')", "array_prepend('q', t)", "array_remove(t, 'a')", "array_replace(t, 'a', 'b')", "ARRAY(SELECT x.id FROM r x WHERE x.id <= r.id ORDER BY x.id DESC)",
            "ARRAY(SELECT a.s FROM a WHERE a.id > 100)", "string_to_array(t[1], 'b')", "(z @> '{2024-01-01 01:00:00+01}')")
        return self.pick(
            "SELECT id, %s AS x FROM r ORDER BY id" % value, "SELECT id, %s AS x FROM r ORDER BY id" % value, "SELECT id, %s AS x FROM r ORDER BY id" % value,
            "SELECT id, x FROM r, unnest(%s) AS q(x) ORDER BY 1, 2" % self.pick("i", "t", "l", one), "SELECT id, unnest(%s) AS x FROM r ORDER BY 1, 2" % self.pick("i", "t", "f"),
            "SELECT array_agg(%s ORDER BY id) AS x FROM r" % self.pick("id", "t[1]", "cardinality(l)"), "SELECT id FROM r WHERE %s ORDER BY id" % self.pick("2 = ANY (i)", "i @> '{2}'", "i && '{1,9}'", "'a' = ANY (t)", "l <> '{}'", "i IS NULL", "i = '{3,2}'", "t[1] = 'a'"),
            "SELECT time, v, n FROM h ORDER BY time", "SELECT time FROM h WHERE %s ORDER BY time" % self.pick("2 = ANY (v)", "v @> '{3}'", "v = '{}'", "n IS NULL"), "SELECT host, array_agg(v[1] ORDER BY time) AS x FROM h GROUP BY host ORDER BY host",
            "SELECT DISTINCT i FROM r ORDER BY i", "SELECT l, count(*) FROM r GROUP BY l ORDER BY l")

    def changed_array(self):
        return self.pick(
            "UPDATE r SET i = i || %d WHERE id = %d" % (self.rng.randrange(9), self.rng.randrange(1, 5)), "UPDATE r SET t = '{%s}' WHERE id = %d" % (self.pick("", "a", "a,NULL", "\"x y\""), self.rng.randrange(1, 5)),
            "UPDATE r SET i = NULL, l = ARRAY[id] WHERE id = %d" % self.rng.randrange(1, 5), "INSERT INTO r (id, i) VALUES (%d, '{%s}')" % (self.rng.randrange(5, 9), self.pick("1", "2,3", "")), "DELETE FROM r WHERE id > 6",
            "INSERT INTO r (id, i) VALUES (9, '{1,x}')", "INSERT INTO r (id, i) VALUES (9, '1,2')", "INSERT INTO r (id, s) VALUES (9, '{99999}')", "INSERT INTO r (id, v) VALUES (9, '{abcdefg}')", "INSERT INTO r (id, l) VALUES (9, NULL)",
            "SELECT '{1,2'::int[]", "SELECT '{a}'::int[]", "INSERT INTO h VALUES ('2024-01-02 00:00:00+00', 'c', ARRAY[0.5, NULL], ARRAY[1]) RETURNING v, n", "DELETE FROM h WHERE time > '2024-01-01 12:00:00+00'")

    def of_order(self):
        """`jsonb` in its order, and what is chosen among types."""
        other = self.pick("'10'", "'[]'", "'{\"a\": 1}'", "'\"b\"'", "'null'", "'[1]'", "'10.00'")
        op = self.pick("=", "<>", "<", "<=", ">", ">=")
        return self.pick(
            "SELECT id FROM js ORDER BY j%s, id" % self.pick("", " DESC", " NULLS FIRST"), "SELECT id FROM js WHERE j %s %s ORDER BY id" % (op, other), "SELECT a.id, b.id AS o FROM js a JOIN js b ON a.j = b.j AND a.id < b.id ORDER BY 1, 2",
            "SELECT count(*) AS n FROM js GROUP BY j ORDER BY j", "SELECT count(DISTINCT j) AS n FROM js", "SELECT count(*) AS n FROM (SELECT DISTINCT j FROM js) q", "SELECT count(*) AS n FROM (SELECT j FROM js UNION SELECT j FROM js) q",
            "SELECT id, rank() OVER (ORDER BY j) AS x FROM js ORDER BY id", "SELECT jsonb_agg(id ORDER BY j, id) AS x FROM js", "SELECT id FROM js WHERE j IN ('10', '[1]', 'null') ORDER BY id", "SELECT id FROM js WHERE j BETWEEN '1' AND %s ORDER BY id" % other,
            "SELECT DISTINCT j FROM js WHERE id < 20 ORDER BY j", "SELECT id, CASE WHEN id < 5 THEN j ELSE '{}' END AS x FROM js ORDER BY id", "SELECT id, coalesce(j, '[]') AS x FROM js ORDER BY id", "SELECT id, coalesce(j -> 'a', j) AS x FROM js ORDER BY id",
            "SELECT id, nullif(j, '9') AS x FROM js ORDER BY id", "SELECT id, CASE WHEN id > 3 THEN j -> 'a' END AS x FROM js ORDER BY id", "SELECT j FROM js WHERE id = 1 UNION ALL SELECT NULL UNION ALL SELECT '{\"z\": 1}' ORDER BY 1",
            "SELECT CASE WHEN b THEN %s ELSE %s END AS x FROM a ORDER BY id" % self.pick(("n", "f"), ("f", "1"), ("NULL", "s"), ("b", "NULL"), ("'x'", "s"), ("1", "NULL")),
            "SELECT coalesce(%s) AS x FROM a ORDER BY id" % self.pick("n, f", "f, 1", "NULL, n", "NULL, NULL, 'x'", "s, 'y'"), "SELECT %s AS x UNION ALL SELECT %s ORDER BY 1" % self.pick(("1", "2.5::float8"), ("NULL", "1"), ("'a'", "NULL"), ("1::smallint", "70000"), ("date '2024-01-01'", "timestamp '2024-01-02 10:00:00'")))

    def select(self):
        kind = self.rng.randrange(17)
        if kind in (13, 14):
            return self.of_arrays()
        if kind == 15:
            return self.of_order()
        if kind == 16:
            return self.changed_array()
        if kind == 11:
            return self.of_enumeration()
        if kind == 12:
            return self.of_rows()
        if kind == 9:
            return "SELECT id, %s AS x, %s AS y FROM a ORDER BY id" % (self.of_json(), self.of_json())
        if kind == 10:
            return self.of_jsons()
        if kind == 8:
            return "SELECT id, %s AS x, %s AS y FROM a ORDER BY id" % (self.bytea(), self.of_bytes())
        if kind == 0:
            return "SELECT %s AS x, %s AS y FROM a ORDER BY id" % (self.any(), self.any())
        if kind == 1:
            return "SELECT id, s FROM a WHERE %s ORDER BY id" % self.truth()
        if kind == 2:
            return "SELECT b, count(*), count(n), min(s), max(n), sum(f) FROM a WHERE %s GROUP BY b ORDER BY b" % self.truth(1)
        if kind == 3:
            return "SELECT a.id, o.id AS other, o.s FROM a %s JOIN o ON o.a_id = a.id WHERE %s ORDER BY 1, 2" % (
                self.pick("", "LEFT"), self.pick("true", "a.n > 0", "o.s IS NOT NULL", "a.b"))
        if kind == 4:
            return "SELECT id, (SELECT max(o.s) FROM o WHERE o.a_id = a.id) AS m FROM a ORDER BY id LIMIT %d OFFSET %d" % (
                self.rng.randrange(4), self.rng.randrange(3))
        if kind == 5:
            return "SELECT %s AS t" % self.moment()
        if kind == 6:
            return "SELECT id, %s OVER (PARTITION BY b ORDER BY id) AS w FROM a ORDER BY id" % self.pick(
                "row_number()", "rank()", "sum(n)", "lag(s)", "count(*)", "max(f)")
        return "SELECT DISTINCT %s AS x FROM a %s SELECT %s FROM a ORDER BY 1" % (
            (lambda one: (one, self.pick("UNION", "UNION ALL", "EXCEPT", "INTERSECT"), one))(self.pick("n", "s", "b", "id % 3")))

    def change(self):
        key = self.rng.randrange(12)
        value = lambda: (self.pick("NULL", "1", "-5", "77"), self.pick("NULL", "0.25", "-3.5"), self.pick("NULL", "'abc'", "'x'", "''"), self.pick("NULL", "true", "false"))
        kind = self.rng.randrange(7)
        if kind == 0:
            return "INSERT INTO a VALUES (%d, %s, %s, %s, %s)" % ((key,) + value())
        if kind == 1:
            return "INSERT INTO a VALUES (%d, %s, %s, %s, %s) ON CONFLICT %s" % (
                (key,) + value() + (self.pick("DO NOTHING", "(id) DO UPDATE SET n = excluded.n, s = a.s"),))
        if kind == 2:
            return "UPDATE a SET n = %s, s = %s WHERE %s" % (self.pick("n + 1", "NULL", "id * 2", "5"), self.pick("s", "'up'", "upper(s)"), self.truth(1))
        if kind == 3:
            return "DELETE FROM a WHERE id = %d AND %s" % (key, self.truth(1))
        if kind == 4:
            return "INSERT INTO o VALUES (%d, %s, %s)" % (key, self.pick("1", "2", "3", "NULL"), self.pick("'p'", "'q'", "NULL"))
        if kind == 5:
            return "UPDATE o SET s = %s WHERE a_id = %d" % (self.pick("'z'", "s || 'a'", "NULL"), self.rng.randrange(1, 4))
        if self.rng.random() < 0.05:
            return self.pick("TRUNCATE o", "TRUNCATE TABLE o, a", "TRUNCATE TABLE ONLY o RESTART IDENTITY CASCADE", "TRUNCATE o, nowhere")
        return "DELETE FROM o WHERE id = %d" % key

    def keyless(self):
        """Of the table without a key: equal rows and NULLs."""
        pick = self.of_keyless.choice
        row = lambda: "(%s, %s, %s)" % (pick(["NULL", "1", "2", "3"]), pick(["NULL", "'a'", "'b'", "''"]), pick(["NULL", "0.5", "-2"]))
        where = lambda: pick(["i = %d" % pick([1, 2, 3]), "i IS NULL", "s = 'a'", "s IS NULL AND f > 0", "f IN (SELECT f FROM k WHERE i = 2)"])
        return pick([
            "INSERT INTO k VALUES %s, %s, %s" % (row(), row(), row()),
            "INSERT INTO k (s) VALUES ('a'), ('a')",
            "INSERT INTO k SELECT DISTINCT * FROM k WHERE %s" % where(),
            "UPDATE k SET f = %s, s = %s WHERE %s" % (pick(["f + 1", "NULL", "i"]), pick(["s", "'c'", "NULL"]), where()),
            "UPDATE k SET i = o.a_id FROM o WHERE k.i = o.id",
            "DELETE FROM k WHERE %s AND %s" % (where(), where()),
            "DELETE FROM k USING o WHERE k.i = o.a_id AND %s" % pick(["k.s = 'b'", "k.f IS NULL"]),
            "MERGE INTO k USING (VALUES (%s, 'm')) AS v(i, s) ON k.i = v.i WHEN MATCHED THEN UPDATE SET s = v.s WHEN NOT MATCHED THEN INSERT VALUES (v.i, v.s)" % pick(["1", "7"]),
            "DELETE FROM k WHERE i = 7 OR s = 'c'",
            "SELECT * FROM k ORDER BY i, s, f",
            "SELECT i, count(*), count(s), sum(f) FROM k GROUP BY i ORDER BY i",
            "SELECT * FROM k NATURAL JOIN k AS other ORDER BY i, s, f",
            "SELECT count(*) FROM k",
        ])

    def wrong(self):
        return self.pick(
            "SELECT 1 / 0", "SELECT 5 %% 0".replace("%%", "%"), "SELECT nothing FROM a", "SELECT * FROM nowhere", "SELECT 'x'::bigint", "SELEC 1",
            "SELECT nofunction(1)", "SELECT a.id FROM a, o WHERE id = 1", "SELECT 'x'::timestamptz", "SELECT n FROM a GROUP BY b",
            "INSERT INTO a VALUES (NULL, 1, 1, 'x', true)", "INSERT INTO o VALUES (99, 1, NULL)", "SELECT 9223372036854775807 + 1::bigint",
            "SELECT (SELECT id FROM a UNION ALL SELECT 1)", "SELECT '2024-13-01'::date", "CREATE TABLE a (id bigint PRIMARY KEY)",
            "DROP TABLE nowhere", "SELECT 'maybe'::boolean", "SELECT sum(s) FROM a", "SELECT * FROM a WHERE n",
            "INSERT INTO a (id, nosuch) VALUES (1, 2)", "UPDATE a SET nosuch = 1", "SELECT 1 UNION SELECT 1, 2", "SELECT count(*) FROM a WHERE count(*) > 1",
            "SELECT id FROM a ORDER BY 7", "SELECT 'a' ~ '('", "SELECT sqrt(-1::float8)", "SELECT current_setting('no.such')",
            "SELECT 'nowhere'::regclass", "INSERT INTO a (id) VALUES (1, 2)", "SELECT $1 + 1", "TABLE nowhere",
            "SELECT '{'::jsonb", "SELECT jsonb_array_length('{}'::jsonb)", "SELECT jsonb_build_object('a')", "SELECT jsonb_array_elements('1'::jsonb)",
            "SELECT '\\x0'::bytea", "SELECT 'a\\b'::bytea", "TRUNCATE nowhere", "SELECT 100000::smallint", "SELECT 3000000000::integer",
        )

    def next(self):
        chance = self.rng.random()
        if chance < 0.72:
            return self.select()
        if chance < 0.94:
            return self.change()
        return self.wrong()


# Types of columns that are others here, ours first; their text is the same. The guide says why.
TYPES = {
    (20, 23): "whole numbers are bigint",
    (1700, 20): "row_number, rank and dense_rank are unsigned",
    (23, 1700): "extract is integer",
    (25, 3802): "elements of an array of jsonb in FROM are text",
    (1016, 1007): "whole numbers are bigint, so arrays of them are of bigint",
}

# Codes of errors that are others here, by the statement. The guide says so.
CODES = {
    "SELECT id FROM a ORDER BY 7": ("42000", "42P10"),
    "SELECT sqrt(-1::float8)": ("42000", "2201F"),
    "SELECT '2024-13-01'::date": ("22P02", "22008"),
    "SELECT $1 + 1": ("42P02", "08P01"),
    "INSERT INTO a (id) VALUES (1, 2)": ("42000", "42601"),
    "TABLE nowhere": ("42601", "42P01"),
}


def plain(value):
    """A value in which a float that was cast to text has no zero behind its point, two digits in its exponent, and infinity by its
    whole name."""
    if value is None:
        return None
    text = re.sub(r"(?<![\d.])(-?\d+)\.0(?![\d.])", r"\1", value.decode(errors="replace"))
    text = re.sub(r"\binf\b", "Infinity", text)
    return re.sub(r"e-(\d)(?!\d)", r"e-0\1", text)


def is_near(one, other):
    """Whether two numerics differ in how many digits they have behind the point only: ours are 16."""
    try:
        one, other = decimal.Decimal(one.decode()), decimal.Decimal(other.decode())
        return abs(one - other) <= max(abs(other) * decimal.Decimal("1e-15"), decimal.Decimal("1e-16"))
    except (AttributeError, UnicodeDecodeError, decimal.InvalidOperation):
        return False


def is_meant(statement, ours, theirs, binary):
    """Whether two answers differ as the guide says: in the code of an error, column by column in a type whose text is the same, or
    in how a float is cast to text; or `x IS NULL` was known without the division by zero in x."""
    if statement in CODES and "error" in (ours[0], theirs[0]):
        return CODES[statement] == (ours[1], theirs[1])
    if ours[0] == "rows" and theirs[:2] == ("error", "22012"):
        return "NULL" in statement
    if ours[0] != "rows" or theirs[0] != "rows" or len(ours[1]) != len(theirs[1]) or len(ours[2]) != len(theirs[2]):
        return False
    for at, ((_, our_type), (_, their_type)) in enumerate(zip(ours[1], theirs[1])):
        is_same_type = our_type == their_type
        # Types that were made have their numbers from this on.
        is_enumeration = our_type == 25 and their_type >= 16384
        if not is_same_type and not is_enumeration and (our_type, their_type) not in TYPES:
            return False
        # Binary forms are those of the types; the texts were compared before.
        if binary and not is_same_type:
            continue
        for ours_row, theirs_row in zip(ours[2], theirs[2]):
            one, other = ours_row[at], theirs_row[at]
            if one != other and not ("::text" in statement and plain(one) == plain(other)) and not (our_type == 1700 and is_near(one, other)):
                return False
    return True


def ask(connection, statement, binary):
    """Columns and rows, or the code of an error."""
    from psycopg.pq import ExecStatus

    result = connection.pgconn.exec_params(statement.encode(), [], result_format=1 if binary else 0)
    if result.status == ExecStatus.TUPLES_OK:
        columns = [(result.fname(at).decode(), result.ftype(at)) for at in range(result.nfields)]
        rows = [tuple(result.get_value(row, at) for at in range(result.nfields)) for row in range(result.ntuples)]
        return ("rows", columns, rows)
    if result.status == ExecStatus.COMMAND_OK:
        return ("done", result.command_status.decode())
    return ("error", result.error_field(67).decode(), result.error_message.decode(errors="replace").strip())


def kind_of(ours, theirs):
    """In which way two answers differ; None = they do not."""
    if ours[0] != theirs[0]:
        if "error" in (ours[0], theirs[0]):
            wrong = ours if ours[0] == "error" else theirs
            return "only %s refuses: %s" % ("ours" if wrong is ours else "PostgreSQL", wrong[1])
        return "%s for %s" % (ours[0], theirs[0])
    if ours[0] == "error":
        return None if ours[1] == theirs[1] else "code %s for %s" % (ours[1], theirs[1])
    if ours[0] == "done":
        return None if ours == theirs else "%s for %s" % (ours[1], theirs[1])
    if [name for name, _ in ours[1]] != [name for name, _ in theirs[1]]:
        return "names of columns"
    if ours[1] != theirs[1]:
        return "types %s for %s" % ([of for _, of in ours[1]], [of for _, of in theirs[1]])
    return None if ours[2] == theirs[2] else "rows"


def compare(ours, theirs, statements, show):
    """Counts of those that agree, of those that are meant to differ, and of the ways in which others differ."""
    agreed, meant, differed = 0, 0, {}
    for statement in statements:
        is_query = statement.startswith("SELECT")
        for binary in [False, True] if is_query else [False]:
            pair = ask(ours, statement, binary), ask(theirs, statement, binary)
            kind = kind_of(*pair)
            if kind is None:
                agreed += 1
                continue
            if is_meant(statement, *pair, binary):
                meant += 1
                break
            kind = ("binary: " if binary and kind == "rows" else "") + kind
            differed.setdefault(kind, []).append((statement, pair))
            break
    for kind, cases in sorted(differed.items(), key=lambda one: -len(one[1])):
        print("%d x %s" % (len(cases), kind))
        for statement, (our, their) in cases[: 8 if show else 2]:
            print("    %s\n        ours:       %s\n        PostgreSQL: %s" % (statement, str(our)[:300], str(their)[:300]))
    return agreed, meant, sum(len(cases) for cases in differed.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the program under test; without it, the release build")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--statements", type=int, default=4000)
    parser.add_argument("--show", action="store_true", help="show more of what differs")
    arguments = parser.parse_args()
    library = clients.CLIENTS["python"](os.path.join(servers.target_dir(), "clients-postgresql"))
    try:
        library.install()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print("psycopg cannot be installed: %s\ntest result: FAILED. 0 passed; 1 failed;" % error)
        sys.exit(1)
    # From here on with the Python that has psycopg.
    program = library.command(False)[0][0]
    if "DIFFERENTIAL" not in os.environ:
        os.execve(program, [program, *sys.argv], {**os.environ, "DIFFERENTIAL": "1"})
    import psycopg

    begun = time.monotonic()
    try:
        reference = Reference()
    except RuntimeError as error:
        print("%s\ntest result: FAILED. 0 passed; 1 failed;" % error)
        sys.exit(1)
    with reference, clients.Nilometer(servers.program(arguments.program), []) as server:
        host, port = server.address
        ours = psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", autocommit=True)
        theirs = psycopg.connect(host=reference.folder, user="postgres", dbname="postgres", autocommit=True)
        made = Statements(arguments.seed)
        statements = SETUP + [made.next() for _ in range(arguments.statements)]
        statements += [made.keyless() for _ in range(arguments.statements // 10)]
        agreed, meant, differed = compare(ours, theirs, statements, arguments.show)
        ours.close()
        theirs.close()
    print("seed %d: %d answers agree, %d differ as the guide says, %d differ otherwise, %.0f s" % (arguments.seed, agreed, meant, differed, time.monotonic() - begun))
    print("test result: %s. %d passed; %d failed;" % ("FAILED" if differed else "ok", agreed, differed))
    sys.exit(1 if differed else 0)


if __name__ == "__main__":
    main()
