#!/usr/bin/env python3
"""Answers to the suite's thirteen questions about trucks, computed from the points of testdata/tsbs/iot.influx.gz.

Does: read the points into plain dictionaries, answer each statement by what its SQL means, and write statements and
answers to testdata/tsbs/iot.sql.jsonl.gz. Does not: ask a database, or share code with Nilometer.

    scripts/iot_answers.py            writes the file
    scripts/iot_answers.py --check    compares with the file that is there

Sums of whole numbers are exact; sums of others are those of math.fsum.
"""

import gzip
import itertools
import json
import math
import pathlib
import sys
from collections import defaultdict
from datetime import datetime, timezone

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "tsbs"
POINTS = FOLDER / "iot.influx.gz"
ANSWERS = FOLDER / "iot.sql.jsonl.gz"
START_US = 1_451_606_400_000_000
MINUTE_US = 60_000_000
TEN_MINUTES_US = 10 * MINUTE_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
FLEETS = ["East", "West", "North", "South"]


def read_points():
    """Rows by table: dictionaries of tags, fields and `time` in microseconds."""
    merged = {}
    with gzip.open(POINTS, "rt") as lines:
        for line in lines:
            key, fields, time_ns = line.split()
            table, *tags = key.split(",")
            assert int(time_ns) % 1000 == 0
            row = merged.setdefault((key, time_ns), {"table": table, "time": int(time_ns) // 1000})
            row.update(tag.split("=") for tag in tags)
            for field in fields.split(","):
                name, value = field.split("=")
                row[name] = int(value[:-1]) if value.endswith("i") else float(value)
    tables = defaultdict(list)
    for row in merged.values():
        tables[row.pop("table")].append(row)
    return tables


def groups(rows, *keys):
    """Rows by the values of some columns or functions."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(key(row) if callable(key) else row.get(key) for key in keys)].append(row)
    return found


def mean(rows, column):
    """avg(column); None where there is no value."""
    values = [row[column] for row in rows if row.get(column) is not None]
    return math.fsum(values) / len(values) if values else None


def above(value, limit):
    """value > limit, where NULL is not."""
    return value is not None and value > limit


def bucket(width_us):
    return lambda row: row["time"] - row["time"] % width_us


def text_of(time_us):
    time = datetime.fromtimestamp(time_us // 1_000_000, timezone.utc)
    return time.strftime("%Y-%m-%d %H:%M:%S") + "+00:00"


def literal(time_us):
    time = datetime.fromtimestamp(time_us // 1_000_000, timezone.utc)
    decimals = f".{time_us % 1_000_000:06}".rstrip("0").rstrip(".")
    return f"timestamp '{time.strftime('%Y-%m-%dT%H:%M:%S')}{decimals}Z'"


def of_fleet(rows, fleet):
    return [row for row in rows if row.get("name") is not None and row.get("fleet") == fleet]


def within(rows, start_us, length_us):
    return [row for row in rows if start_us <= row["time"] < start_us + length_us]


def window(start_us, length_us):
    return f"time >= {literal(start_us)} and time < {literal(start_us + length_us)}"


def by_name(pair):
    """Order by name, driver; NULL last."""
    return [(value is None, value or "") for value in pair]


def newest(rows):
    """The newest row of each name and driver, in their order."""
    last = {key: max(of_truck, key=lambda row: row["time"]) for key, of_truck in groups(rows, "name", "driver").items()}
    return [last[key] for key in sorted(last, key=by_name)]


def last_sql(table, columns, condition):
    return (
        f"select distinct on (name, driver) name, driver, {columns} from {table} "
        f"where {condition} order by name, driver, time desc"
    )


class Answers:
    """The statements with their answers."""

    def __init__(self, tables):
        self.readings = tables["readings"]
        self.diagnostics = tables["diagnostics"]
        self.lines = []

    def add(self, name, sql, columns, rows, ordered=False):
        names, types = zip(*columns)
        assert all(len(row) == len(names) for row in rows)
        shown = [[None if value is None else str(value) for value in row] for row in rows]
        if not ordered:
            shown.sort(key=lambda row: [(value is None, value or "") for value in row])
        line = {"type": name, "sql": sql, "columns": names, "types": types, "ordered": ordered, "rows": shown}
        self.lines.append(line)

    def all(self):
        for fleet in FLEETS:
            condition = f"name is not null and fleet = '{fleet}'"
            self.last_loc("last-loc", of_fleet(self.readings, fleet), condition)
            self.low_fuel(fleet, condition)
            self.high_load(fleet, condition)
        for number in range(12):
            truck = f"truck_{number}"
            rows = [row for row in self.readings if row.get("name") == truck]
            self.last_loc("single-last-loc", rows, f"name in ('{truck}')")
        self.stationary()
        for fleet in FLEETS:
            for minutes in (0, 94, 400, 1_201):
                self.long_sessions("long-driving-sessions", fleet, START_US + minutes * MINUTE_US + 21_646_325, 4, 22)
            for minutes in (0, 40):
                self.long_sessions("long-daily-sessions", fleet, START_US + minutes * MINUTE_US + 34_646_325, 24, 60)
        self.avg_vs_projected()
        self.driving_duration()
        self.driving_session()
        self.avg_load()
        self.daily_activity()
        self.breakdown_frequency()
        return self.lines

    def last_loc(self, name, rows, condition):
        columns = [("name", "text"), ("driver", "text"), ("longitude", "double"), ("latitude", "double")]
        found = [[row.get(column) for column, _ in columns] for row in newest(rows)]
        self.add(name, last_sql("readings", "longitude, latitude", condition), columns, found, ordered=True)

    def low_fuel(self, fleet, condition):
        last = newest(of_fleet(self.diagnostics, fleet))
        columns = [("name", "text"), ("driver", "text"), ("fuel_state", "double")]
        inner = last_sql("diagnostics", "fuel_state", condition)
        # Nobody is below a tenth at the end of this data set: half a tank shows that the question works.
        for name, limit in (("low-fuel", 0.1), ("low-fuel, half", 0.5)):
            found = [
                [row.get(column) for column, _ in columns]
                for row in last
                if row.get("fuel_state") is not None and row["fuel_state"] < limit
            ]
            sql = f"select name, driver, fuel_state from ({inner}) as d where fuel_state < {limit}"
            self.add(name, sql, columns, found)

    def high_load(self, fleet, condition):
        columns = [("name", "text"), ("driver", "text"), ("current_load", "double")]
        found = [
            [row.get(column) for column, _ in columns]
            for row in newest(of_fleet(self.diagnostics, fleet))
            if row.get("current_load") is not None
            and row.get("load_capacity") is not None
            and row["current_load"] / row["load_capacity"] > 0.9
        ]
        inner = last_sql("diagnostics", "current_load, load_capacity", condition)
        sql = f"select name, driver, current_load from ({inner}) as d where current_load / load_capacity > 0.9"
        self.add("high-load", sql, columns, found)

    def stationary(self):
        by_time = groups(self.readings, "time")

        def standing(fleet, start_us):
            times = range(start_us - start_us % 30_000_000 + 30_000_000, start_us + TEN_MINUTES_US, 30_000_000)
            rows = of_fleet([row for time_us in times for row in by_time[(time_us,)]], fleet)
            means = {key: mean(of_truck, "velocity") for key, of_truck in groups(rows, "name", "driver").items()}
            return [list(key) for key, value in means.items() if value is not None and value < 1]

        columns = [("name", "text"), ("driver", "text")]
        for fleet in FLEETS:
            # Windows in which somebody stands are rare, so they are searched for, from the start on; two of each fleet, and
            # one that the suite drew.
            starts = (START_US + 30_000_000 * epoch - 353_675 for epoch in range(1, 2_900))
            found = itertools.islice((start_us for start_us in starts if standing(fleet, start_us)), 2)
            for start_us in [*found, START_US + 966 * MINUTE_US + 49_646_325]:
                sql = (
                    f"select name, driver from readings where {window(start_us, TEN_MINUTES_US)} "
                    f"and name is not null and fleet = '{fleet}' "
                    "group by name, driver having avg(velocity) < 1"
                )
                self.add("stationary-trucks", sql, columns, standing(fleet, start_us))

    def long_sessions(self, name, fleet, start_us, hours, periods):
        rows = within(of_fleet(self.readings, fleet), start_us, hours * HOUR_US)
        driven = defaultdict(int)
        for (truck, driver, _), of_bucket in groups(rows, "name", "driver", bucket(TEN_MINUTES_US)).items():
            driven[truck, driver] += above(mean(of_bucket, "velocity"), 1)
        found = [list(key) for key, count in driven.items() if count > periods]
        sql = (
            "select name, driver from ("
            "select name, driver, time_bucket('10 minutes', time) as ten_minutes "
            f"from readings where {window(start_us, hours * HOUR_US)} and name is not null and fleet = '{fleet}' "
            "group by name, driver, ten_minutes having avg(velocity) > 1) as r "
            f"group by name, driver having count(ten_minutes) > {periods}"
        )
        self.add(name, sql, [("name", "text"), ("driver", "text")], found)

    def avg_vs_projected(self):
        needed = ("fleet", "nominal_fuel_consumption", "name")
        rows = [row for row in self.readings if above(row.get("velocity"), 1) and all(c in row for c in needed)]
        found = [
            [*key, mean(of_fleet_, "fuel_consumption"), mean(of_fleet_, "nominal_fuel_consumption")]
            for key, of_fleet_ in groups(rows, "fleet").items()
        ]
        sql = (
            "select fleet, avg(fuel_consumption) as avg_fuel_consumption, "
            "avg(nominal_fuel_consumption) as projected_fuel_consumption "
            "from readings where velocity > 1 and fleet is not null "
            "and nominal_fuel_consumption is not null and name is not null group by fleet"
        )
        columns = [("fleet", "text"), ("avg_fuel_consumption", "double"), ("projected_fuel_consumption", "double")]
        self.add("avg-vs-projected-fuel-consumption", sql, columns, found)

    def driving_duration(self):
        periods = defaultdict(int)
        buckets = groups(self.readings, "fleet", "name", "driver", bucket(TEN_MINUTES_US))
        for (fleet, truck, driver, time_us), rows in buckets.items():
            if above(mean(rows, "velocity"), 1):
                periods[fleet, truck, driver, time_us - time_us % DAY_US] += 1
        hours = defaultdict(list)
        for (*key, _), count in periods.items():
            hours[tuple(key)].append(count // 6)
        found = [[*key, sum(list_) / len(list_)] for key, list_ in hours.items()]
        sql = (
            "with ten_minute_driving_sessions as ("
            "select fleet, name, driver, time_bucket('10 minutes', time) as ten_minutes "
            "from readings group by fleet, name, driver, ten_minutes having avg(velocity) > 1"
            "), daily_total_session as ("
            "select fleet, name, driver, time_bucket('24 hours', ten_minutes) as day, count(*) / 6 as hours "
            "from ten_minute_driving_sessions group by fleet, name, driver, day"
            ") select fleet, name, driver, avg(hours) as avg_daily_hours "
            "from daily_total_session group by fleet, name, driver"
        )
        columns = [("fleet", "text"), ("name", "text"), ("driver", "text"), ("avg_daily_hours", "double")]
        self.add("avg-daily-driving-duration", sql, columns, found)

    def driving_session(self):
        named = [row for row in self.readings if row.get("name") is not None]
        status = defaultdict(dict)
        for (truck, time_us), rows in groups(named, "name", bucket(TEN_MINUTES_US)).items():
            velocity = mean(rows, "velocity")
            status[truck][time_us] = None if velocity is None else velocity > 5
        durations = defaultdict(list)
        for truck, by_time in status.items():
            times = sorted(by_time)
            changes = [
                now
                for before, now in zip(times, times[1:])
                if None not in (by_time[before], by_time[now]) and by_time[before] != by_time[now]
            ]
            for start_us, stop_us in zip(changes, [*changes[1:], None]):
                if by_time[start_us]:
                    duration = None if stop_us is None else stop_us - start_us
                    durations[truck, start_us - start_us % DAY_US].append(duration)
        found = []
        for truck, day in sorted(durations):
            known = [duration for duration in durations[truck, day] if duration is not None]
            seconds = sum(known) / len(known) / 1e6 if known else None
            found.append([truck, text_of(day), seconds])
        sql = (
            "with driver_status as ("
            "select name, time_bucket('10 minutes', time) as ten_minutes, avg(velocity) > 5 as driving "
            "from readings where name is not null group by name, ten_minutes"
            "), driver_status_change as ("
            "select name, ten_minutes as start, "
            "lead(ten_minutes) over (partition by name order by ten_minutes) as stop, driving from ("
            "select name, ten_minutes, driving, "
            "lag(driving) over (partition by name order by ten_minutes) as prev_driving "
            "from driver_status) as x where x.driving <> x.prev_driving"
            ") select name, time_bucket('24 hours', start) as day, avg(stop - start) as duration "
            "from driver_status_change where driving = true group by name, day order by name, day"
        )
        columns = [("name", "text"), ("day", "timestamptz"), ("duration", "interval")]
        self.add("avg-daily-driving-session", sql, columns, found, ordered=True)

    def avg_load(self):
        named = [row for row in self.diagnostics if row.get("name") is not None]
        shares = defaultdict(list)
        for (fleet, model, _), rows in groups(named, "fleet", "model", "name").items():
            capacity = max((row["load_capacity"] for row in rows if "load_capacity" in row), default=None)
            load = mean(rows, "current_load")
            share = None if None in (load, capacity) else load / capacity
            shares[fleet, model, capacity].append({"share": share})
        found = [[*key, mean(of_group, "share")] for key, of_group in shares.items()]
        sql = (
            "select fleet, model, load_capacity, "
            "avg(avg_load / load_capacity) as avg_load_percentage from ("
            "select fleet, model, name, max(load_capacity) as load_capacity, avg(current_load) as avg_load "
            "from diagnostics where name is not null group by fleet, model, name) as d "
            "group by fleet, model, load_capacity"
        )
        columns = [("fleet", "text"), ("model", "text"), ("load_capacity", "double"), ("avg_load_percentage", "double")]
        self.add("avg-load", sql, columns, found)

    def daily_activity(self):
        named = [row for row in self.diagnostics if row.get("name") is not None]
        counts = defaultdict(int)
        for (time_us, fleet, model, _), rows in groups(named, bucket(TEN_MINUTES_US), "fleet", "model", "name").items():
            status = mean(rows, "status")
            if status is not None and status < 1:
                counts[fleet, model, time_us - time_us % DAY_US] += len(rows)
        found = [[fleet, model, text_of(day), count / 144] for (fleet, model, day), count in counts.items()]
        sql = (
            "select fleet, model, day, sum(ten_mins_per_day) / 144.0 as daily_activity from ("
            "select time_bucket('24 hours', time) as day, time_bucket('10 minutes', time) as ten_minutes, "
            "fleet, model, name, count(*) as ten_mins_per_day "
            "from diagnostics where name is not null "
            "group by day, ten_minutes, fleet, model, name having avg(status) < 1) as y "
            "group by fleet, model, day order by day"
        )
        columns = [("fleet", "text"), ("model", "text"), ("day", "timestamptz"), ("daily_activity", "double")]
        self.add("daily-activity", sql, columns, found)

    def breakdown_frequency(self):
        named = [row for row in self.diagnostics if row.get("name") is not None]
        broken = defaultdict(dict)
        for (time_us, model, truck), rows in groups(named, bucket(TEN_MINUTES_US), "model", "name").items():
            known = sum(row.get("status") is not None for row in rows)
            # Integers are divided as integers: 1 where every row has a status, 0 otherwise.
            broken[model, truck][time_us] = known // len(rows) >= 0.5
        breakdowns = defaultdict(int)
        for (model, _), by_time in broken.items():
            times = sorted(by_time)
            for now, after in zip(times, times[1:]):
                breakdowns[model] += not by_time[now] and by_time[after]
        found = [[model, count] for model, count in breakdowns.items() if count > 0]
        sql = (
            "with breakdown_per_truck_per_ten_minutes as ("
            "select time_bucket('10 minutes', time) as ten_minutes, model, name, "
            "count(status = 0) / count(*) >= 0.5 as broken_down "
            "from diagnostics where name is not null group by ten_minutes, model, name"
            "), breakdowns_per_truck as ("
            "select model, broken_down, "
            "lead(broken_down) over (partition by model, name order by ten_minutes) as next_broken_down "
            "from breakdown_per_truck_per_ten_minutes"
            ") select model, count(*) as breakdowns from breakdowns_per_truck "
            "where broken_down = false and next_broken_down = true group by model"
        )
        self.add("breakdown-frequency", sql, [("model", "text"), ("breakdowns", "bigint")], found)


def main():
    lines = Answers(read_points()).all()
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    rows = sum(len(line["rows"]) for line in lines)
    if "--check" in sys.argv[1:]:
        if gzip.decompress(ANSWERS.read_bytes()).decode() != text:
            sys.exit(f"{ANSWERS} has other answers")
    else:
        # Without the time of its making, so that the same answers are the same bytes.
        ANSWERS.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    empty = sum(not line["rows"] for line in lines)
    print(f"{len(lines)} statements, {rows} rows, {empty} answers are empty")


main()
