"""Statements of TimescaleDB from a seed, in cases: each is a list of statements for a database of its own.

Does: make the same cases for the same seed, with rows, orders and times that are all written out, so that every answer is the only
one. Does not: run them (`timescaledb.py` does), or name chunks, jobs and hypertables by numbers that each server gives anew.
"""

import datetime
import random

ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC", "America/Sao_Paulo", "Asia/Kathmandu"]
WIDTHS = [
    "1 second", "15 seconds", "1 minute", "7 minutes", "30 minutes", "1 hour", "90 minutes", "6 hours", "1 day", "36 hours", "3 days", "1 week", "10 days", "250 milliseconds",
]
MONTHS = ["1 month", "2 months", "3 months", "5 months", "1 year", "2 years", "10 years", "18 months"]
MOMENTS = [
    "2024-02-29 12:34:56.789012", "1999-12-31 23:59:59.999999", "2000-01-03 00:00:00", "2000-01-01 00:00:00", "1970-01-01 00:00:00", "1969-07-20 20:17:40",
    "2023-03-26 00:59:59", "2023-03-26 01:30:00", "2023-10-29 00:30:00", "2023-10-29 01:30:00", "2024-03-10 07:15:00", "2024-11-03 06:45:00", "1901-12-13 20:45:52", "2038-01-19 03:14:08",
    "2016-01-31 22:30:00", "2024-12-31 23:30:00",
]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Buckets:
    """time_bucket of constants in every form, without tables."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, *choices):
        return self.rng.choice(choices)

    def width(self):
        kind = self.rng.random()
        if kind < 0.55:
            return self.rng.choice(WIDTHS)
        if kind < 0.93:
            return self.rng.choice(MONTHS)
        return self.pick("0 days", "-1 hour", "1 month 1 day", "1 month 2 hours")

    def moment(self):
        if self.rng.random() < 0.5:
            return self.rng.choice(MOMENTS)
        start = datetime.datetime(1985, 1, 1)
        return str(start + datetime.timedelta(seconds=self.rng.randrange(60 * 365 * 86400), milliseconds=self.pick(0, 0, 250)))

    def offset(self):
        return "interval " + quoted(self.pick("5 minutes", "-5 minutes", "1 day", "90 minutes", "-2 hours", "14 days", "3 hours 30 minutes", "1 month", "-1 month"))

    def zoned(self):
        width, moment = self.width(), "timestamptz " + quoted(self.moment() + self.pick("+00", "+00", "+02", "-05:30"))
        origin = "timestamptz " + quoted(self.moment()[:19] + "+00")
        zone = quoted(self.rng.choice(ZONES) if self.rng.random() < 0.96 else "Middle/Earth")
        tail = self.pick("", "", ", " + self.offset(), ", " + origin, ", " + zone, ", " + zone, ", origin => " + origin, ', "offset" => ' + self.offset(), ", timezone => " + zone,
                         ", %s, %s" % (zone, origin), ", %s, NULL, %s" % (zone, self.offset()), ", %s, origin => %s" % (zone, origin), ', %s, "offset" => %s' % (zone, self.offset()),
                         ", %s, %s, %s" % (zone, origin, self.offset()))
        return "time_bucket(%s, %s%s)" % (quoted(width), moment, tail)

    def plain(self):
        width, moment = self.width(), "timestamp " + quoted(self.moment())
        origin = "timestamp " + quoted(self.moment()[:19])
        tail = self.pick("", "", ", " + self.offset(), ", " + origin, ", origin => " + origin, ', "offset" => ' + self.offset())
        return "time_bucket(%s, %s%s)" % (quoted(width), moment, tail)

    def day(self):
        width = self.pick("1 day", "3 days", "1 week", "10 days", "36 hours", "1 month", "3 months", "1 year", "2 years", "5 months")
        tail = self.pick("", "", ", interval " + quoted(self.pick("1 day", "-3 days", "14 days", "1 month")), ", date " + quoted(self.moment()[:10]), ", origin => date " + quoted(self.moment()[:10]))
        return "time_bucket(%s, date %s%s)" % (quoted(width), quoted(self.moment()[:10]), tail)

    def integer(self):
        of, most = self.pick(("smallint", 32767), ("int", 2147483647), ("bigint", 9223372036854775807))
        value = self.pick(0, 1, -1, 17, -17, 1000, -1000, most, -most - 1, self.rng.randrange(-30000, 30000))
        width = self.pick(1, 5, 7, 10, 100, 1000, 0, -3)
        tail = self.pick("", "", ", %s" % self.cast(self.pick(0, 1, -1, 3, 8, -12, 1000), of))
        return "time_bucket(%s, %s%s)" % (self.cast(width, of), self.cast(value, of), tail)

    @staticmethod
    def cast(value, of):
        return "'%d'::%s" % (value, of)

    def case(self):
        statements = []
        for _ in range(50):
            if self.rng.random() < 0.04:
                statements.append("SET TIME ZONE " + quoted(self.rng.choice(ZONES)))
            form = self.pick(self.zoned, self.zoned, self.zoned, self.plain, self.plain, self.day, self.integer)
            statements.append("SELECT %s AS b" % form())
        if self.rng.random() < 0.5:
            statements.append("SELECT time_bucket('1 hour', NULL::timestamptz) AS a, time_bucket(NULL::interval, timestamptz '2024-01-01') AS b, time_bucket('1 day', timestamp '2024-01-01', NULL::interval) AS c")
        return statements


class Table:
    """A hypertable: its rows, queries and changes."""

    TIMES = ["timestamptz", "timestamptz", "timestamptz", "timestamp", "date", "bigint", "integer", "smallint"]

    def __init__(self, rng, of=None):
        self.rng = rng
        self.of = of or rng.choice(self.TIMES)
        self.is_integer = self.of in ("bigint", "integer", "smallint")
        self.tag = rng.choice(["text", "integer"])
        self.is_unique = rng.random() < 0.35
        self.start = datetime.datetime(2024, 1, 1) + datetime.timedelta(days=rng.randrange(400))
        self.span_s = rng.choice([3 * 3600, 86400, 5 * 86400, 40 * 86400]) if self.of != "date" else rng.choice([300, 400]) * 86400
        self.chunk = rng.choice(["1 hour", "6 hours", "1 day", "7 days"]) if self.span_s <= 86400 else rng.choice(["1 day", "7 days", "30 days"])
        if self.of == "date":
            self.chunk = rng.choice(["1 day", "7 days", "30 days"])
        self.chunk_integer = rng.choice([10, 100, 500])
        self.taken, self.times, self.numbers = set(), set(), rng.sample(range(-100, 5000), 2000)

    def pick(self, *choices):
        return self.rng.choice(choices)

    # Times: of a table, as they are written.
    def at(self, share=None):
        share = self.rng.random() if share is None else share
        if self.is_integer:
            return str(int(share * 1000) - 100)
        moment = self.start + datetime.timedelta(seconds=int(share * self.span_s))
        if self.of == "date":
            return quoted(str(moment.date()))
        return quoted(str(moment) + ("+00" if self.of == "timestamptz" else ""))

    def typed(self, share=None):
        return self.at(share) if self.is_integer else "%s %s" % (self.of, self.at(share))

    def bound(self, share=None):
        """A bound of chunks: an integer has the type of the time there."""
        return "(%s)::%s" % (self.at(share), self.of) if self.is_integer else self.typed(share)

    def device(self):
        return self.pick("'a'", "'b'", "'c'", "'d d'") if self.tag == "text" else self.pick("1", "2", "3", "40")

    def row(self, share=None):
        time, device = self.at(share), "NULL" if self.rng.random() < 0.04 and not self.is_unique else self.device()
        # One row at a time and with a number, so that the first and the last of some are known.
        if time in self.times:
            return None
        self.times.add(time)
        self.taken.add((time, device))
        value = self.pick("NULL", "0", "-1.5", "1e3", "0.1", "2.25", *["%.3f" % self.rng.uniform(-50, 100)] * 6)
        number = self.pick("NULL", *[str(self.numbers.pop())] * 6)
        return "(%s, %s, %s, %s, %s)" % (time, device, value, number, self.pick("NULL", "true", "false"))

    def insert(self, count, least=0.0, most=1.0):
        rows = []
        while not any(rows):
            rows += [self.row(self.rng.uniform(least, most)) for _ in range(count)]
        return "INSERT INTO m VALUES " + ", ".join(row for row in rows if row)

    def setup(self):
        statements = ["CREATE TABLE m (time %s NOT NULL, device %s, v double precision, n %s, ok boolean)" % (self.of, self.tag, self.pick("integer", "bigint"))]
        if self.is_unique:
            statements.append("CREATE UNIQUE INDEX ON m (device, time)")
        elif self.rng.random() < 0.7:
            statements.append("CREATE INDEX ON m (device, time DESC)")
        width = str(self.chunk_integer) if self.is_integer else "INTERVAL " + quoted(self.chunk)
        statements.append(self.pick("SELECT created FROM create_hypertable('m', 'time', chunk_time_interval => %s)", "SELECT created FROM create_hypertable('m', by_range('time', %s))") % width)
        for _ in range(self.rng.randrange(1, 4)):
            statements.append(self.insert(self.rng.randrange(15, 40)))
        return statements

    def width(self):
        if self.is_integer:
            return str(self.pick(1, 7, 10, 50, 100, 250))
        if self.of == "date":
            return quoted(self.pick("1 day", "3 days", "1 week", "1 month"))
        if self.span_s <= 86400:
            return quoted(self.pick("5 minutes", "15 minutes", "1 hour", "6 hours", "1 day"))
        return quoted(self.pick("6 hours", "1 day", "3 days", "1 week", "1 month", "3 months"))

    def bucket(self, name="time_bucket"):
        width = self.width()
        tail = ""
        if self.of == "timestamptz" and self.rng.random() < 0.35:
            tail = self.pick(", " + quoted(self.rng.choice(ZONES)), ", INTERVAL '2 hours'" if name == "time_bucket" else "", ", timezone => " + quoted(self.rng.choice(ZONES)))
        elif self.is_integer and name == "time_bucket" and self.rng.random() < 0.3:
            tail = ", %d" % self.pick(1, 3, -2)
        elif self.of == "timestamp" and name == "time_bucket" and self.rng.random() < 0.2:
            tail = self.pick(", INTERVAL '1 hour'", ", TIMESTAMP '2000-01-01'")
        return "%s(%s, time%s)" % (name, width, tail)

    def aggregate(self):
        return self.pick(
            "count(*)", "count(v)", "sum(n)", "sum(v)", "avg(v)", "avg(n)", "min(v)", "max(n)", "min(time)", "max(time)", "first(v, time)", "last(v, time)", "first(n, time)", "last(ok, time)",
            "first(device, time)", "last(time, n)", "first(v, n)", "histogram(v, -10, 60, 4) FILTER (WHERE v IS NOT NULL)", "histogram(v, 0, 1, 1) FILTER (WHERE v IS NOT NULL)", "bool_and(ok)", "count(DISTINCT device)", "stddev(v)", "var_pop(n)", "sum(v) FILTER (WHERE ok)",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY v)", "array_agg(n ORDER BY time, device)", "string_agg(n::text, ',' ORDER BY n, time)", "max(v) - min(v)", "count(*) FILTER (WHERE v > 10)")

    def condition(self):
        return self.pick(
            "time >= %s" % self.typed(), "time < %s" % self.typed(), "time >= %s AND time < %s" % (self.typed(self.rng.uniform(0, 0.5)), self.typed(self.rng.uniform(0.5, 1.1))), "device = %s" % self.device(),
            "device IN (%s, %s)" % (self.device(), self.device()), "v > 10", "v BETWEEN 0 AND 50", "ok", "n IS NULL", "device IS NOT NULL", "NOT ok OR v < 0", "time = %s" % self.typed(), "true")

    def query(self):
        kind = self.rng.randrange(10)
        where = self.condition() if self.rng.random() < 0.6 else "true"
        if kind <= 3:
            return "SELECT %s AS b, %s AS x, %s AS y FROM m WHERE %s GROUP BY b ORDER BY b" % (self.bucket(), self.aggregate(), self.aggregate(), where)
        if kind == 4:
            return "SELECT device, %s AS b, %s AS x FROM m WHERE %s GROUP BY device, b %sORDER BY device, b" % (self.bucket(), self.aggregate(), where, self.pick("", "", "HAVING count(*) > 1 "))
        if kind == 5:
            return "SELECT * FROM m WHERE %s ORDER BY time%s, device, v, n LIMIT %d" % (where, self.pick("", " DESC"), self.rng.randrange(1, 12))
        if kind == 6:
            return "SELECT device, %s AS x, %s AS y FROM m WHERE %s GROUP BY device ORDER BY device" % (self.aggregate(), self.aggregate(), where)
        if kind == 7:
            return "SELECT DISTINCT ON (device) device, time, v FROM m WHERE %s ORDER BY device, time DESC, v" % where
        if kind == 8:
            return "SELECT %s AS x, %s AS y FROM m WHERE %s" % (self.aggregate(), self.aggregate(), where)
        return "SELECT time, device, %s OVER (PARTITION BY device ORDER BY time, v, n) AS w FROM m WHERE %s ORDER BY time, device, v, n" % (self.pick("lag(v)", "sum(n)", "row_number()", "count(*)", "first_value(v)", "max(v)"), where)

    def gapfill(self):
        one, other = self.rng.uniform(-0.05, 0.4), self.rng.uniform(0.6, 1.05)
        if self.span_s > 5 * 86400 or self.is_integer:
            width = "(%d)::%s" % (self.pick(50, 100, 125), self.of) if self.is_integer else quoted(self.pick("1 week", "3 days", "1 month" if self.of != "date" else "5 days", "10 days"))
        else:
            width = quoted(self.pick("1 day", "3 days")) if self.of == "date" else quoted(self.pick("1 hour", "6 hours") if self.span_s <= 86400 else self.pick("6 hours", "1 day", "12 hours"))
        tail = ", " + quoted(self.rng.choice(ZONES)) if self.of == "timestamptz" and self.rng.random() < 0.3 else ""
        # Boundaries by WHERE, or as arguments.
        bounds = ""
        if self.rng.random() < 0.25 and not tail:
            bounds = ", %s, %s" % (self.bound(one), self.bound(other))
        bucket = "time_bucket_gapfill(%s, time%s%s)" % (width, tail, bounds)
        value = self.pick(
            "avg(v)", "locf(avg(v))", "locf(last(v, time))", "interpolate(avg(v))", "interpolate(sum(n))", "count(*)", "locf(min(n), treat_null_as_missing => true)", "coalesce(avg(v), -1)", "locf(count(*))",
            "interpolate(max(v)) + 1" if self.rng.random() < 0.2 else "locf(max(n))", "sum(v)",
            "locf(avg(v), (SELECT x.v FROM m x WHERE x.time < %s AND x.v IS NOT NULL ORDER BY x.time DESC, x.v LIMIT 1))" % self.typed(one))
        where = "time >= %s AND time < %s" % (self.typed(one), self.typed(other))
        if self.rng.random() < 0.5:
            return "SELECT %s AS b, %s AS x FROM m WHERE %s GROUP BY b ORDER BY b" % (bucket, value, where)
        return "SELECT device, %s AS b, %s AS x FROM m WHERE %s AND device IS NOT NULL GROUP BY device, b ORDER BY device, b" % (bucket, value, where)

    def change(self):
        kind = self.rng.randrange(9)
        if kind <= 2:
            return self.insert(self.rng.randrange(1, 8), self.pick(0.0, 0.5), 1.1)
        if kind == 3:
            return "UPDATE m SET v = v + %s WHERE %s" % (self.pick("1", "0.5", "-2.25"), self.condition())
        if kind == 4:
            return "UPDATE m SET n = %s, ok = %s WHERE %s" % (self.pick("NULL", "n + 100000", "n - 50000"), self.pick("true", "NULL", "NOT ok"), self.condition())
        if kind == 5:
            return "DELETE FROM m WHERE %s AND %s" % (self.condition(), self.pick("v < 0", "n > 500", "device = %s" % self.device()))
        if kind == 6 and self.is_unique:
            time, device = self.rng.choice(sorted(self.taken))
            return "INSERT INTO m VALUES (%s, %s, 77, 7, true) %s" % (time, device, self.pick("ON CONFLICT DO NOTHING", "ON CONFLICT (device, time) DO UPDATE SET v = excluded.v, n = excluded.n, ok = excluded.ok", ""))
        if kind == 7:
            return "DELETE FROM m WHERE time = %s" % self.typed()
        return self.insert(2) + " RETURNING device, v, n"

    def chunks(self):
        bound = self.bound(self.rng.random())
        return self.pick(
            "SELECT count(*) AS n FROM show_chunks('m')", "SELECT count(*) AS n FROM show_chunks('m', older_than => %s)" % bound, "SELECT count(*) AS n FROM show_chunks('m', newer_than => %s)" % bound,
            "SELECT %s FROM timescaledb_information.chunks WHERE hypertable_name = 'm' ORDER BY 1" % self.pick(
                "range_start_integer, range_end_integer" if self.is_integer else "range_start, range_end", "%s, is_compressed" % ("range_start_integer" if self.is_integer else "range_start")),
            "SELECT hypertable_name, num_dimensions, compression_enabled FROM timescaledb_information.hypertables",
            "SELECT column_name, dimension_type, time_interval, integer_interval, num_partitions FROM timescaledb_information.dimensions WHERE hypertable_name = 'm' ORDER BY dimension_number",
            "SELECT total_chunks, number_compressed_chunks FROM hypertable_compression_stats('m')")

    def compression(self):
        return self.pick(
            "SELECT count(compress_chunk(c, if_not_compressed => true)) AS n FROM show_chunks('m') c", "SELECT count(compress_chunk(c, true)) AS n FROM show_chunks('m', older_than => %s) c" % self.bound(),
            "SELECT count(decompress_chunk(c, if_compressed => true)) AS n FROM show_chunks('m') c", "SELECT count(decompress_chunk(c, true)) AS n FROM show_chunks('m', newer_than => %s) c" % self.bound())

    def dropped(self):
        bound = self.bound(self.rng.uniform(0, 0.5))
        return self.pick("SELECT count(*) AS n FROM (SELECT drop_chunks('m', older_than => %s)) AS q" % bound, "SELECT count(*) AS n FROM (SELECT drop_chunks('m', newer_than => %s)) AS q" % self.bound(0.9))

    def case(self):
        statements = self.setup()
        for _ in range(14):
            statements.append(self.query())
        for _ in range(8):
            statements.append(self.gapfill())
        for _ in range(3):
            statements.append(self.chunks())
        segment = self.pick(", timescaledb.compress_segmentby = 'device'", "")
        statements.append("ALTER TABLE m SET (timescaledb.compress, timescaledb.compress_orderby = 'time%s'%s)" % (self.pick("", " DESC"), segment))
        for _ in range(5):
            statements.append(self.compression())
            for _ in range(3):
                statements.append(self.change())
                statements.append(self.query())
            statements.append(self.pick(self.gapfill, self.chunks)())
        statements.append(self.dropped())
        statements.extend([self.query(), self.chunks(), "SELECT * FROM m ORDER BY time, device, v, n"])
        return statements


class Aggregates(Table):
    """Continuous aggregates with changes, refreshes and what is read meanwhile."""

    def __init__(self, rng):
        super().__init__(rng, rng.choice(["timestamptz", "timestamptz", "timestamp", "bigint", "integer"]))

    def bounds(self):
        if self.only == "false":
            # What is not refreshed is stale there, and right here.
            return "NULL, NULL"
        one, other = self.pick("NULL", self.at(0.3)), self.pick("NULL", self.at(0.8))
        return "%s, %s" % (one, other)

    def case(self):
        statements = self.setup()
        if self.is_integer:
            statements.append("CREATE FUNCTION now_of_m() RETURNS %s LANGUAGE SQL STABLE AS $$ SELECT coalesce(max(time), 0)::%s FROM m $$" % (self.of, self.of))
            statements.append("SELECT set_integer_now_func('m', 'now_of_m')")
            width, wide = str(self.pick(10, 50)), "100"
        else:
            width, wide = (("15 minutes", "1 hour") if self.span_s <= 86400 else ("6 hours", "1 day"))
            width, wide = quoted(width), quoted(wide)
        zone = ", " + quoted(self.rng.choice(ZONES[:3])) if self.of == "timestamptz" and self.rng.random() < 0.3 else ""
        columns = ["count(*) AS c", "sum(n) AS s", "min(v) AS low", "max(v) AS high", "avg(v) AS mean", "first(v, time) AS f", "last(n, time) AS l", "count(v) AS cv"]
        chosen = self.rng.sample(columns, 4)
        by = self.pick("", ", device")
        only = self.only = self.pick("true", "false")
        self.columns, self.by = "b%s, %s" % (by, ", ".join(it.split(" AS ")[1] for it in chosen)), by
        statements.append("CREATE MATERIALIZED VIEW a WITH (timescaledb.continuous, timescaledb.materialized_only = %s) AS SELECT time_bucket(%s, time%s) AS b%s, %s FROM m GROUP BY 1%s %s" % (
            only, width, zone, by, ", ".join(chosen), ", 2" if by else "", self.pick("WITH NO DATA", "WITH DATA")))
        read = "SELECT %s FROM a ORDER BY %s" % (self.columns, "b" + by)
        has_second = self.rng.random() < 0.5 and not zone and {"count(*) AS c", "sum(n) AS s"} & set(chosen)
        if has_second:
            inner = "sum(c) AS c" if "count(*) AS c" in chosen else "sum(s) AS s"
            statements.append("CREATE MATERIALIZED VIEW d WITH (timescaledb.continuous, timescaledb.materialized_only = %s) AS SELECT time_bucket(%s, b) AS d, %s FROM a GROUP BY 1 WITH NO DATA" % (only, wide, inner))
        statements.append(read)
        for _ in range(5):
            for _ in range(self.rng.randrange(1, 3)):
                statements.append(self.change())
            if only == "true" or self.rng.random() < 0.15:
                statements.append(read)
            statements.append("CALL refresh_continuous_aggregate('a', %s)" % self.bounds())
            if has_second:
                statements.append("CALL refresh_continuous_aggregate('d', NULL, NULL)")
                statements.append("SELECT * FROM d ORDER BY 1")
            statements.append(read)
        statements.append("CALL refresh_continuous_aggregate('a', NULL, NULL)")
        statements.append("ALTER MATERIALIZED VIEW a SET (timescaledb.materialized_only = %s)" % ("false" if only == "true" else "true"))
        statements.append(read)
        statements.append("SELECT count(*) AS n, sum(x) AS s FROM (SELECT %s AS x FROM a) q" % chosen[0].split(" AS ")[1])
        statements.append(self.insert(3, 1.15, 1.5))
        statements.append(read)
        statements.append("CALL refresh_continuous_aggregate('a', NULL, NULL)")
        statements.append(read)
        statements.append("SELECT view_name, materialized_only, compression_enabled FROM timescaledb_information.continuous_aggregates ORDER BY 1")
        statements.extend(self.wrong())
        statements.extend(["DROP TABLE m", "DROP MATERIALIZED VIEW d" if has_second else "DROP MATERIALIZED VIEW nothing", "DROP MATERIALIZED VIEW a", "SELECT count(*) AS n FROM a"])
        return statements

    def wrong(self):
        of_time = "10" if self.is_integer else "'1 day'"
        all_wrong = [
            "CREATE MATERIALIZED VIEW w WITH (timescaledb.continuous) AS SELECT device, count(*) FROM m GROUP BY device", "CREATE MATERIALIZED VIEW w WITH (timescaledb.continuous) AS SELECT time_bucket(%s, time) AS b, random() AS r FROM m GROUP BY b" % of_time,
            "CREATE MATERIALIZED VIEW w WITH (timescaledb.continuous) AS SELECT time_bucket(%s, time) AS b, count(*) FROM m GROUP BY b LIMIT 3" % of_time, "CALL refresh_continuous_aggregate('nothing', NULL, NULL)",
            "CALL refresh_continuous_aggregate('a', %s, %s)" % (self.at(0.8), self.at(0.2)), "INSERT INTO a VALUES (1)", "CREATE MATERIALIZED VIEW a WITH (timescaledb.continuous) AS SELECT time_bucket(%s, time) AS b, count(*) FROM m GROUP BY b" % of_time,
            "CREATE MATERIALIZED VIEW w WITH (timescaledb.continuous) AS SELECT count(*) FROM m"]
        chosen = self.rng.sample(all_wrong, 3)
        return [one.replace("VIEW w ", "VIEW w%d " % nth) for nth, one in enumerate(chosen)]


class Policies(Table):
    """Policies and what views show of them; hypertables that are made in other ways, and wrong calls."""

    JOBS = "SELECT proc_name, schedule_interval, hypertable_name, config ->> '%s' AS after FROM timescaledb_information.jobs WHERE job_id >= 1000 ORDER BY 1, 2, 4"

    def __init__(self, rng):
        super().__init__(rng, rng.choice(["timestamptz", "timestamp", "bigint"]))

    def length(self):
        return str(self.pick(100, 1000, 5000)) if self.is_integer else "INTERVAL " + quoted(self.pick("7 days", "1 month", "12 hours", "30 days", "1 year"))

    def case(self):
        statements = self.setup()
        if self.is_integer:
            statements.append("SELECT add_retention_policy('m', 1000)")
            statements.append("CREATE FUNCTION now_of_m() RETURNS bigint LANGUAGE SQL STABLE AS $$ SELECT 2000::bigint $$")
            statements.append("SELECT set_integer_now_func('m', 'now_of_m')")
            statements.append("SELECT set_integer_now_func('m', 'nothing')")
        statements.append("ALTER TABLE m SET (timescaledb.compress, timescaledb.compress_segmentby = 'device', timescaledb.compress_orderby = 'time DESC')")
        statements.append("SELECT attname, segmentby_column_index, orderby_column_index, orderby_asc FROM timescaledb_information.compression_settings WHERE hypertable_name = 'm' ORDER BY attname")
        after = self.length()
        statements.append("SELECT add_compression_policy('m', compress_after => %s%s) AS job" % (after, self.pick("", ", schedule_interval => INTERVAL '2 hours'")))
        statements.append(self.JOBS % "compress_after")
        statements.append("SELECT add_compression_policy('m', compress_after => %s, if_not_exists => true) AS job" % after)
        statements.append("SELECT add_compression_policy('m', compress_after => %s)" % after)
        statements.append("SELECT add_retention_policy('m', drop_after => %s) AS job" % ("100000" if self.is_integer else "INTERVAL '50 years'"))
        statements.append(self.JOBS % "drop_after")
        statements.append("SELECT add_retention_policy('m', drop_after => %s, if_not_exists => true) AS job" % ("100000" if self.is_integer else "INTERVAL '50 years'"))
        statements.append("SELECT remove_compression_policy('m') AS gone")
        statements.append("SELECT remove_compression_policy('m')")
        statements.append("SELECT remove_compression_policy('m', if_exists => true) AS gone")
        statements.append("SELECT remove_retention_policy('m')")
        statements.append("SELECT remove_retention_policy('m', true)")
        statements.append("SELECT count(*) AS n FROM timescaledb_information.jobs WHERE job_id >= 1000")
        statements.extend(self.wrong())
        statements.append("SELECT add_reorder_policy('m', 'nothing')")
        new = str(self.pick(20, 200)) if self.is_integer else "INTERVAL " + quoted(self.pick("2 days", "12 hours"))
        statements.append("SELECT set_chunk_time_interval('m', %s)" % new)
        statements.append("SELECT time_interval, integer_interval FROM timescaledb_information.dimensions WHERE hypertable_name = 'm' AND column_name = 'time'")
        statements.extend(["DROP TABLE m", "SELECT count(*) AS n FROM timescaledb_information.hypertables"])
        return statements

    def wrong(self):
        return [
            "SELECT create_hypertable('m', 'time')", "SELECT created FROM create_hypertable('m', 'time', if_not_exists => true)", "SELECT create_hypertable('nothing', 'time')", "SELECT drop_chunks('m')",
            "SELECT drop_chunks('nothing', older_than => %s)" % self.bound(), "SELECT count(*) AS n FROM show_chunks('m', older_than => %s, newer_than => %s)" % (self.bound(0.8), self.bound(0.2)), "SELECT compress_chunk('nothing')", "SELECT set_chunk_time_interval('nothing', 10)",
            "SELECT time_bucket('1 day', 5)", "SELECT histogram(v, 10, 0, 5) FROM m", "SELECT histogram(v, 0, 10, 0) FROM m", "SELECT histogram(v, -10, 60, 4) FROM m", "SELECT time_bucket_gapfill(%s, time) AS b FROM m GROUP BY b" % self.width(), "SELECT locf(avg(v)) FROM m", "INSERT INTO m VALUES (NULL, %s, 1, 1, true)" % self.device(),
            "SELECT approximate_row_count('nothing')", "SELECT hypertable_size('nothing')", "SELECT interpolate(v) FROM m", "CALL run_job(999999)", "SELECT delete_job(999999)", "SELECT add_retention_policy('nothing', INTERVAL '1 day')", "SELECT first(v) FROM m",
        ]


def cases(seed, counts):
    """Cases by name."""
    kinds = {"buckets": Buckets, "tables": Table, "aggregates": Aggregates, "policies": Policies}
    for kind, count in counts.items():
        for nth in range(count):
            rng = random.Random("%d %s %d" % (seed, kind, nth))
            yield "%s-%d" % (kind, nth), kinds[kind](rng).case()
