"""The package `influxdb-client`, made for version 2: it writes, deletes and asks whether the server is there."""

import os
import unittest

from influxdb import InfluxDBClient as Version1
from influxdb_client import InfluxDBClient, Point, WriteOptions, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

import support

DB = "python_writes"


class Writes(unittest.TestCase):
    def setUp(self):
        self.reader = Version1(**support.arguments(database=DB))
        self.reader.drop_database(DB)
        self.reader.create_database(DB)
        self.addCleanup(self.reader.close)
        self.client = self.client_of("%s:%s" % (support.USER, support.PASSWORD))

    def client_of(self, token):
        client = InfluxDBClient(url=os.environ["CLIENT_URL"], token=token, org="-")
        self.addCleanup(client.close)
        return client

    def values(self, statement, column):
        return [row[column] for row in self.reader.query(statement).get_points()]

    def test_the_server_is_there(self):
        self.assertTrue(self.client.ping())
        self.assertEqual(self.client.health().status, "pass")

    def test_points_lines_and_dictionaries(self):
        with self.client.write_api(write_options=SYNCHRONOUS) as write:
            write.write(bucket=DB, record=Point("m").tag("host", "a b").field("v", 1.5).field("n", 3).time(1577836800, WritePrecision.S))
            write.write(bucket=DB, record=["m,host=a\\ b v=2.5 1577836810"], write_precision=WritePrecision.S)
            write.write(
                bucket=DB + "/autogen",
                record={"measurement": "m", "tags": {"host": "c"}, "fields": {"v": 4.0}, "time": "2020-01-01T00:00:20Z"},
            )
        self.assertEqual(self.values("SELECT v FROM m WHERE host = 'a b'", "v"), [1.5, 2.5])
        self.assertEqual(self.values("SELECT v FROM m WHERE host = 'c'", "time"), ["2020-01-01T00:00:20Z"])
        self.assertEqual(self.values("SELECT n FROM m", "n"), [3])

    def test_batches_in_the_background_all_arrive(self):
        with self.client.write_api(write_options=WriteOptions(batch_size=500, flush_interval=1000)) as write:
            for second in range(2250):
                write.write(bucket=DB, record="batched n=%di %d" % (second, second), write_precision=WritePrecision.S)
        self.assertEqual(self.values("SELECT count(n) FROM batched", "count"), [2250])
        self.assertEqual(self.values("SELECT sum(n) FROM batched", "sum"), [2249 * 2250 // 2])

    def test_precisions_of_version_2(self):
        with self.client.write_api(write_options=SYNCHRONOUS) as write:
            for precision, time in [("ns", 1577836800000000001), ("us", 1577836800000001), ("ms", 1577836800001), ("s", 1577836801)]:
                write.write(bucket=DB, record="at_%s v=1 %d" % (precision, time), write_precision=precision)
        wanted = {"ns": 1577836800000000001, "us": 1577836800000001000, "ms": 1577836800001000000, "s": 1577836801000000000}
        for precision, time in wanted.items():
            found = self.reader.query("SELECT v FROM at_" + precision, epoch="ns").get_points()
            self.assertEqual([row["time"] for row in found], [time])

    def test_a_range_and_a_tag_are_deleted(self):
        with self.client.write_api(write_options=SYNCHRONOUS) as write:
            write.write(bucket=DB, record=["d,host=%s v=%d %d" % (host, second, second) for host in "ab" for second in range(10)], write_precision="s")
        self.client.delete_api().delete(
            "1970-01-01T00:00:02Z", "1970-01-01T00:00:05Z", '_measurement="d" AND host="a"', bucket=DB, org="-"
        )
        self.assertEqual(self.values("SELECT v FROM d WHERE host = 'b'", "v"), list(range(10)))
        left = self.values("SELECT v FROM d WHERE host = 'a'", "v")
        # Both ends of a delete are included there.
        self.assertEqual(left, [0, 1, 6, 7, 8, 9])

    def test_errors(self):
        write = self.client.write_api(write_options=SYNCHRONOUS)
        self.addCleanup(write.close)
        with self.assertRaises(ApiException) as caught:
            write.write(bucket=DB, record="m v=")
        self.assertEqual(caught.exception.status, 400)
        self.assertIn("missing field value", caught.exception.body)
        with self.assertRaises(ApiException) as caught:
            write.write(bucket="python_nowhere", record="m v=1")
        self.assertEqual(caught.exception.status, 404)
        with self.assertRaises(ApiException) as caught:
            self.client.query_api().query('from(bucket: "x")')
        self.assertEqual(caught.exception.status, 403)

    @unittest.skipUnless(support.USER, "tokens are asked for in the run with authentication")
    def test_a_wrong_token_is_refused(self):
        for token in ["%s:wrong" % support.USER, "nobody:x", "neither"]:
            write = self.client_of(token).write_api(write_options=SYNCHRONOUS)
            self.addCleanup(write.close)
            with self.assertRaises(ApiException) as caught:
                write.write(bucket=DB, record="m v=1")
            self.assertEqual(caught.exception.status, 401)
        self.assertEqual(self.values("SHOW MEASUREMENTS", "name"), [])


if __name__ == "__main__":
    unittest.main()
