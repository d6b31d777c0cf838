"""The package `influxdb` with pandas: frames in and out, by its DataFrameClient."""

import unittest

import pandas
from influxdb import DataFrameClient

import support

DB = "python_frames"
TIMES = pandas.to_datetime(["2020-01-01T00:00:00Z", "2020-01-01T00:00:10Z", "2020-01-01T00:00:20Z"])


class Frames(unittest.TestCase):
    def setUp(self):
        self.client = DataFrameClient(**support.arguments(database=DB))
        self.client.drop_database(DB)
        self.client.create_database(DB)
        self.addCleanup(self.client.close)

    def test_a_frame_comes_back_as_it_was_written(self):
        frame = pandas.DataFrame({"load": [0.5, 1.25, -3.0], "n": [1, 2, 3], "text": ["a", "b c", "d=e,f"]}, index=TIMES)
        for protocol in ["line", "json"]:
            self.client.write_points(frame, protocol, protocol=protocol)
            found = self.client.query("SELECT load, n, text FROM " + protocol)[protocol]
            self.assertEqual(found["load"].tolist(), [0.5, 1.25, -3.0])
            self.assertEqual(found["n"].tolist(), [1, 2, 3])
            self.assertEqual(found["text"].tolist(), ["a", "b c", "d=e,f"])
            self.assertEqual([time.value for time in found.index.as_unit("ns")], [time.value for time in TIMES])

    def test_nanoseconds_are_kept(self):
        times = pandas.to_datetime([1577836800000000001, 1577836800000000003], utc=True)
        self.client.write_points(pandas.DataFrame({"v": [1.0, 2.0]}, index=times), "fine")
        found = self.client.query("SELECT v FROM fine", epoch="ns")["fine"]
        self.assertEqual([time.value for time in found.index.as_unit("ns")], [1577836800000000001, 1577836800000000003])

    def test_columns_become_tags_and_groups_frames_of_their_own(self):
        frame = pandas.DataFrame({"host": ["a", "b", "a"], "load": [1.0, 2.0, 4.0]}, index=TIMES)
        self.client.write_points(frame, "cpu", tag_columns=["host"], field_columns=["load"], tags={"site": "x y"}, batch_size=2)
        found = self.client.query("SELECT sum(load) FROM cpu WHERE site = 'x y' GROUP BY host")
        sums = {tags: frame["sum"].tolist() for (_, tags), frame in found.items()}
        self.assertEqual(sums, {(("host", "a"),): [5.0], (("host", "b"),): [2.0]})

    def test_missing_values_are_missing(self):
        frame = pandas.DataFrame({"a": [1.0, None, 3.0], "b": [None, 2.0, None]}, index=TIMES)
        self.client.write_points(frame, "gaps")
        found = self.client.query("SELECT a, b FROM gaps")["gaps"]
        self.assertEqual(found["a"].isna().tolist(), [False, True, False])
        self.assertEqual(found["b"].isna().tolist(), [True, False, True])
        self.assertEqual(found["a"].sum() + found["b"].sum(), 6.0)

    def test_buckets_without_points_are_missing_values(self):
        frame = pandas.DataFrame({"v": [1.0, 2.0, 6.0]}, index=TIMES)
        self.client.write_points(frame, "filled")
        found = self.client.query(
            "SELECT mean(v) FROM filled WHERE time >= '2020-01-01T00:00:00Z' AND time < '2020-01-01T00:00:25Z' GROUP BY time(5s)"
        )["filled"]
        self.assertEqual(found["mean"].fillna(-1).tolist(), [1.0, -1, 2.0, -1, 6.0])


if __name__ == "__main__":
    unittest.main()
