"""Rows and statements, hand-written and random, for compare-influxdb.py beside it."""

import os
import random

CLOCKS = "compare5"
T0 = 1577836800  # 2020-01-01T00:00:00Z, a Wednesday


def lines():
    """Rows with what makes answers differ: absent tags, absent fields, negative numbers, equal values, gaps."""
    rng = random.Random(1)
    out = []
    for step in range(240):
        # No two series have a row of one time: in which order 1.6.7 gives those, nothing says.
        for nth, (host, region) in enumerate([("a", "eu"), ("b", "eu"), ("c", "us"), ("d", None)]):
            at = T0 + step * 30 + nth * 7
            if rng.random() < 0.15:
                continue
            tags = "host=%s" % host + (",region=%s" % region if region else "")
            fields = ["usage=%r" % round(rng.uniform(-5, 100), 2)]
            if rng.random() < 0.8:
                fields.append("n=%di" % rng.randint(-20, 20))
            if rng.random() < 0.3:
                fields.append('s="%s"' % rng.choice(["x", "y z", 'q"uote', "lt<gt>&"]).replace('"', '\\"'))
            if rng.random() < 0.4:
                fields.append("ok=%s" % rng.choice(["true", "false"]))
            out.append("cpu,%s %s %d000000000" % (tags, ",".join(fields), at))
    for step in range(60):
        at = T0 + step * 120 + 7
        out.append("mem,host=%s free=%di,total=100i %d000000000" % (rng.choice("abc"), rng.randint(0, 100), at))
    for step in range(20):
        out.append("disk used=%r %d000000000" % (rng.choice([0.5, 1.5, 2.0, 2.0, -0.25]), T0 + step * 600))
    for step, text in enumerate(["one", "two", "two", "three"]):
        out.append('log,app=web,level=info text="%s",code=%di %d000000000' % (text, 200 + step, T0 + step))
    out.append("odd\\ name,ta\\ g=v\\,1,t\\=2=x\\ y fi\\ eld=1,f2=2i %d000000000" % T0)
    out.append("sparse,k=v a=1 %d000000000" % T0)
    out.append("sparse,k=v b=2 %d000000000" % (T0 + 60))
    out.append("sparse,k=v a=3,b=4 %d000000000" % (T0 + 86400 * 3))
    out += twins()
    return "\n".join(out)


def twins():
    """A measurement with the names of another one: limits of rows and series count in each."""
    rng, out = random.Random(2), []
    for step in range(60):
        for nth, tags in enumerate(["host=a,region=eu", "host=b,region=us", "host=c"]):
            if rng.random() < 0.8:
                at = T0 + step * 110 + nth * 11 + 3
                out.append("gpu,%s usage=%r,n=%di %d000000000" % (tags, round(rng.uniform(-5, 100), 2), rng.randint(-20, 20), at))
    return out


def clocks_set():
    """Days on which clocks are set in Europe: one of 25 hours, one of 23."""
    rng, out = random.Random(3), []
    for begin in (1603576800, 1585350000):  # 2020-10-25 and 2020-03-28, midnight in Berlin
        for step in range(4 * 60):
            if rng.random() < 0.9:
                out.append("dst,host=%s v=%r,n=%di %d000000000" % ("ab"[step % 2], round(rng.uniform(0, 9), 1), rng.randint(0, 9), begin + step * 900))
    return out


# --- statements ----------------------------------------------------------------------------------------------------


def written(name):
    """Statements written by hand, a line each."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata", "influxql")
    with open(os.path.join(folder, name + ".txt")) as file:
        return file.read().splitlines()


SHOW = written("show")

# Each of these may change something; they run in this order, at the end, on a database of their own.
CHANGES = written("changes")

SELECTS = written("select")

RANGE = "time >= '2020-01-01T00:00:00Z' and time < '2020-01-01T02:00:00Z'"


def random_select(rng):
    field = lambda: rng.choice(["usage", "usage", "n", "n", "s", "ok"])
    number = lambda: rng.choice(["usage", "n"])
    is_grouped = rng.random() < 0.6
    conditions = []
    if rng.random() < 0.7 or is_grouped:
        start = rng.randrange(0, 7000)
        stop = start + rng.randrange(1, 7200)
        conditions.append(
            "time %s %d000000000 and time %s %ds"
            % (rng.choice([">", ">="]), T0 + start, rng.choice(["<", "<="]), T0 + stop)
        )
    if rng.random() < 0.4:
        conditions.append(
            rng.choice(
                [
                    "host = 'a'",
                    "host != 'b'",
                    "host =~ /[bc]/",
                    "host !~ /a/",
                    "region = ''",
                    "region = 'eu'",
                    "(host = 'a' or host = 'c')",
                    "region != ''",
                ]
            )
        )
    if rng.random() < 0.25:
        conditions.append(
            rng.choice(["usage > 50", "n < 0", "n >= 3", "s = 'x'", "ok = true", "usage + n > 60", "n != 4", "s =~ /y/"])
        )
    if is_grouped:
        aggregate = lambda: rng.choice(
            ["mean(%s)", "sum(%s)", "stddev(%s)", "spread(%s)", "median(%s)", "max(%s)", "min(%s)", "integral(%s)"]
        ) % number() if rng.random() < 0.6 else rng.choice(
            ["count(%s)", "first(%s)", "last(%s)", "mode(%s)"]
        ) % field()
        kind = rng.random()
        if kind < 0.65:
            fields = ", ".join(aggregate() for _ in range(rng.choice([1, 1, 1, 2, 3])))
        elif kind < 0.8:
            fields = rng.choice(
                ["derivative(mean(%s), 1m)", "difference(max(%s))", "cumulative_sum(sum(%s))", "moving_average(mean(%s), 2)", "non_negative_difference(last(%s))"]
            ) % number()
        else:
            fields = "%s %s %s" % (aggregate(), rng.choice("+-*/"), rng.choice([aggregate(), "2", "0.5", "0"]))
    else:
        kind = rng.random()
        if kind < 0.4:
            fields = ", ".join(sorted({field() for _ in range(rng.choice([1, 2, 3]))}))
        elif kind < 0.5:
            fields = "*"
        elif kind < 0.7:
            fields = "%s %s %s" % (number(), rng.choice("+-*/"), rng.choice([number(), "2", "0", "1.5"]))
        elif kind < 0.8:
            fields = rng.choice(["abs(%s)", "floor(%s)", "difference(%s)", "cumulative_sum(%s)", "derivative(%s, 10s)", "elapsed(%s, 1s)", "sqrt(%s)", "moving_average(%s, 3)"]) % number()
        else:
            fields = rng.choice(["max(%s)", "min(%s)", "first(%s)", "last(%s)", "percentile(%s, 75)", "top(%s, 3)", "bottom(%s, 2)", "mean(%s)", "distinct(%s)", "max(%s), host"]) % number()
    source = rng.choice(["cpu", "cpu", "cpu", "/cp./"])
    groups = []
    if is_grouped:
        groups.append(rng.choice(["time(1m)", "time(5m)", "time(7m)", "time(10m, 3m)", "time(1h)", "time(30s)"]))
    if rng.random() < 0.4:
        groups.append(rng.choice(["host", "region", "host, region", "*", "/re/"]))
        if "integral(" in fields:
            # Of several series 1.6.7 shows the last bucket of each after all others, in the order of a hash table.
            conditions.append("host = 'c'")
    text = "select %s from %s" % (fields, source)
    if conditions:
        text += " where " + " and ".join(conditions)
    if groups:
        text += " group by " + ", ".join(groups)
    if is_grouped and rng.random() < 0.5:
        text += " fill(%s)" % rng.choice(["null", "none", "previous", "linear", "0", "-1.5"])
    if rng.random() < 0.3:
        text += " order by time %s" % rng.choice(["asc", "desc"])
    # Which of the distinct values come first is up to a hash table there.
    if "distinct(" not in fields and rng.random() < 0.4:
        text += " limit %d" % rng.randint(1, 12)
        if rng.random() < 0.4:
            text += " offset %d" % rng.randint(1, 5)
    if groups and rng.random() < 0.2:
        text += " slimit %d" % rng.randint(1, 3)
        if rng.random() < 0.4:
            text += " soffset %d" % rng.randint(0, 2)
    if is_grouped and rng.random() < 0.1:
        text += " tz('Europe/Berlin')"
    if rng.random() < 0.12:
        inner = "select mean(usage) as m, max(n) as x from cpu where %s group by time(5m), host" % RANGE
        text = rng.choice(
            [
                "select mean(m) from (%s)",
                "select m * 2 from (%s) limit 5",
                "select max(x) from (%s) group by host",
                "select count(m) from (%s) where m > 40 group by host",
                "select sum(x) from (%s) where %s group by time(20m)",
            ]
        )
        text = text % ((inner, RANGE) if text.count("%s") == 2 else inner)
    return text


def random_integral(rng):
    """Integrals of several series in a group, and of several groups: what `random_select` asks of one."""
    unit = rng.choice(["", "", ", 1m", ", 10s", ", 7s"])
    text = "select integral(%s%s) from %s" % (rng.choice(["usage", "n"]), unit, rng.choice(["cpu", "cpu", "/cp./"]))
    start = rng.randrange(0, 7000)
    conditions = ["time >= %ds and time < %ds" % (T0 + start, T0 + start + rng.randrange(1, 7200))]
    if rng.random() < 0.4:
        conditions.append(rng.choice(["host != 'b'", "host =~ /[bc]/", "region = 'eu'", "region = ''", "usage > 50", "n < 0", "ok = true"]))
    text += " where " + " and ".join(conditions)
    groups = rng.choice([[], [], ["host"], ["region"], ["host", "region"], ["*"]])
    # What a fill counts of buckets that come last is another matter.
    window = rng.choice([None, "time(1m)", "time(5m)", "time(7m)", "time(10m, 3m)", "time(1h)", "time(30s)"])
    if window:
        groups = [window] + groups
    if groups:
        text += " group by " + ", ".join(groups)
    if window:
        text += " fill(none)"
    if rng.random() < 0.3:
        text += " order by time desc"
    return text


def random_forecast(rng):
    """Forecasts: of means and others by buckets, with a season and without, with the fit and without."""
    # Of what both have exactly: a forecast makes more of the last digit of a sum that is added up in another order.
    aggregate = rng.choice(["mean(n)", "sum(n)", "count(n)", "max(usage)", "min(usage)", "first(usage)", "last(usage)", "max(n)"])
    width, season = rng.choice([("2m", 0), ("5m", 0), ("5m", 4), ("10m", 3), ("1m", 0), ("6m", 5)])
    call = rng.choice(["holt_winters", "holt_winters_with_fit"])
    text = "select %s(%s, %d, %d) from cpu" % (call, aggregate, rng.randint(1, 6), season)
    start = rng.randrange(0, 3000)
    text += " where time >= %ds and time < %ds" % (T0 + start, T0 + start + rng.randrange(1800, 4200))
    if rng.random() < 0.5:
        text += " and host = '%s'" % rng.choice("abc")
    text += " group by time(%s)" % width + rng.choice(["", ", host", ", region"])
    return text


def random_several(rng):
    """Several measurements: LIMIT, OFFSET, SLIMIT and SOFFSET count in each."""
    is_grouped = rng.random() < 0.4
    if is_grouped:
        fields = rng.choice(["mean(usage)", "count(n)", "max(usage), min(n)", "sum(n)", "last(usage)"])
    else:
        fields = rng.choice(["usage", "usage, n", "*", "usage, host", "n * 2", "count(usage)", "max(n)", "top(usage, 2)", "first(usage), host"])
    text = "select %s from %s" % (fields, rng.choice(["cpu, gpu", "gpu, cpu", "/^.pu$/", "cpu, gpu, mem", "gpu"]))
    start = rng.randrange(0, 5000)
    conditions = ["time >= %ds and time < %ds" % (T0 + start, T0 + start + rng.randrange(1, 3000))]
    if rng.random() < 0.3:
        conditions.append(rng.choice(["host = 'a'", "host != 'b'", "region = ''", "usage > 50"]))
    text += " where " + " and ".join(conditions)
    groups = (["time(5m)"] if is_grouped else []) + rng.choice([[], [], ["host"], ["region"], ["*"]])
    if groups:
        text += " group by " + ", ".join(groups)
    if is_grouped:
        text += " fill(none)"
    if rng.random() < 0.3:
        text += " order by time desc"
    if rng.random() < 0.5:
        text += " limit %d" % rng.randint(2, 6) + rng.choice(["", "", " offset %d" % rng.randint(1, 3)])
    if rng.random() < 0.6:
        text += " slimit %d" % rng.randint(1, 3) + rng.choice(["", "", " soffset %d" % rng.randint(0, 2)])
    return text


def random_nested(rng):
    """Queries in queries: what is a tag outside, whose range and whose buckets count, whose LIMIT."""
    # Of buckets inside that a range cuts, and of transformations without a range, 1.6.7 answers nothing, or one of the groups.
    step = 2100
    at = lambda: T0 + step * rng.randrange(0, 3)
    span = lambda: "time >= %ds and time < %ds" % ((lambda first: (first, first + step * rng.randrange(1, 3)))(at()))
    inner_range = " where " + span() if rng.random() < 0.4 else ""
    limit = rng.choice(["", "", " limit %d" % rng.randint(1, 5)])
    inner, outputs = rng.choice(
        [
            ("select * from cpu%s" + limit, ["usage", "n"]),
            ("select usage, host from cpu%s" + limit, ["usage"]),
            ("select usage, n from cpu%s group by host" + limit, ["usage", "n"]),
            ("select * from cpu%s group by *", ["usage", "n"]),
            ("select max(usage) as m from cpu%s", ["m"]),
            ("select max(usage) as m from cpu%s group by host", ["m"]),
            ("select difference(n) as m from cpu%s group by host", ["m"]),
            ("select difference(mean(usage)) as m from cpu%s group by time(7m)", ["m"]),
            ("select derivative(sum(n), 1m) as m from cpu%s group by time(5m), host", ["m"]),
            ("select moving_average(mean(n), 3) as m from cpu%s group by time(5m)", ["m"]),
            ("select cumulative_sum(count(n)) as m from cpu%s group by time(5m)", ["m"]),
            ("select mean(n) as m from cpu%s group by time(1m)", ["m"]),
        ]
    )
    inner = inner % inner_range
    field = rng.choice(outputs)
    is_tagged = "group by time" in inner and "host" in inner or "max(usage)" in inner and "host" in inner
    groups = []
    if rng.random() < 0.45:
        fields = rng.choice(["*", field] if not is_tagged else ["*"])
        groups = rng.choice([[], ["*"], ["host"]]) if not is_tagged else rng.choice([["*"], ["host"]])
    elif rng.random() < 0.3 and not is_tagged:
        fields = rng.choice(["top(%s, 2)", "bottom(%s, 3)"]) % field
        groups = rng.choice([[], ["host"]])
    else:
        fields = rng.choice(["sum(%s)", "count(%s)", "mean(%s)", "max(%s)", "count(*)"]).replace("%s", field)
        groups = rng.choice([[], ["time(7m)"], ["time(1h)"], ["time(20m)", "host"], ["*"], ["host"]])
        if groups and groups[0].startswith("time") and "group by time" not in inner and rng.random() < 0.3:
            groups = ["time(5h)"] + groups[1:]
    text = "select %s from (%s)" % (fields, inner)
    is_bucketed = any(group.startswith("time") for group in groups)
    if rng.random() < 0.6 or is_bucketed or "group by time" in inner and not inner_range:
        text += " where " + span()
    if groups:
        text += " group by " + ", ".join(groups)
    if is_bucketed:
        text += " fill(none)"
    if rng.random() < 0.3:
        text += " limit %d" % rng.randint(3, 8)
    if is_bucketed and rng.random() < 0.2:
        text += " tz('Europe/Berlin')"
    return text


def random_clocks(rng):
    """Buckets of local time around the days on which clocks are set."""
    begin = rng.choice([1603576800, 1585350000]) + rng.randrange(0, 40) * 3600
    stop = begin + rng.randrange(2, 60) * 3600
    fields = rng.choice(["mean(v)", "count(v)", "sum(n)", "max(v), min(v)", "last(n)", "integral(v, 1h)", "integral(n, 1h)", "median(v)", "difference(mean(v))", "cumulative_sum(sum(n))"])
    text = "select %s from %s..dst where time >= %ds and time < %ds" % (fields, CLOCKS, begin, stop)
    text += " group by time(%s)" % rng.choice(["1h", "2h", "5h", "6h", "12h", "1d", "1d", "1d, 6h", "6h, 30m", "7d"])
    if "integral" not in fields:
        text += rng.choice(["", ", host"]) + " fill(%s)" % rng.choice(["none", "none", "null", "0", "previous"])
        text += rng.choice(["", "", " order by time desc", " limit 3"])
    return text + " tz('%s')" % rng.choice(["Europe/Berlin", "Europe/Berlin", "Europe/London", "Asia/Tokyo", "Australia/Lord_Howe"])


def random_show(rng):
    source = rng.choice(["", "", " from cpu", " from mem", " from /c|m/", " from cpu, log"])
    condition = rng.choice(
        ["", "", " where host = 'a'", " where host != 'a'", " where region = ''", " where host =~ /a|c/", " where region !~ /e/",
         " where host = 'a' or region = 'us'", " where host = 'a' and region = 'eu'", " where (host = 'd' or host = 'a') and region != 'us'",
         " where time > '2020-01-01T00:00:00Z'", " where time < '2020-01-01T00:00:00Z' and host = 'a'"]
    )
    window = rng.choice(["", "", " limit 1", " limit 2", " limit 2 offset 1", " offset 1", " limit 10 offset 2"])
    kind = rng.randrange(6)
    if kind == 5:
        keys = rng.choice(["= host", "in (host, region)", "=~ /o/", "!= host"])
        what = rng.choice(["series%s cardinality", "measurement%s cardinality", "tag key%s cardinality", "field key%s cardinality", "tag values%s cardinality"])
        groups = rng.choice(["", " group by host", " group by region", " group by host, region", " group by *", " group by /^re/", " group by nope"])
        if "time" in condition:
            condition = ""
        # There a series without the tag is neither like '' nor unlike anything when values are counted; it is when they are listed.
        if "values" in what and ("''" in condition or "!" in condition):
            condition = ""
        # Of the whole of a database the older one estimates, and without EXACT the newer one of a measurement, under another name.
        return "show " + what % " exact" + source + (" with key " + keys if "values" in what else "") + condition + groups + window
    if kind == 0:
        return "show series" + source + condition + window
    if kind == 1:
        return "show tag keys" + source + condition + window
    if kind == 2:
        keys = rng.choice(["= host", "!= host", "=~ /o/", "!~ /o/", "in (host, region)", "in (app, nope)"])
        return "show tag values" + source + " with key " + keys + condition + window
    if kind == 3:
        return "show field keys" + source + window
    if "time" in condition:
        condition = ""
    return "show measurements" + condition + window
