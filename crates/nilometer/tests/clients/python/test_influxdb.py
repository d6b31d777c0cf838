"""The package `influxdb`: points, statements, lists, users, as its users write them. It asks for MessagePack."""

import unittest

from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError

import support

DB = "python_client"
POINTS = [
    {"measurement": "cpu", "tags": {"host": host}, "time": "2020-01-01T00:%02d:00Z" % minute, "fields": {"load": load, "n": n}}
    for host, minute, load, n in [("a", 0, 1.5, 1), ("a", 1, 2.5, -2), ("b", 0, 10.0, 3), ("b", 1, 0.1, 9007199254740993)]
]


class Client(unittest.TestCase):
    def setUp(self):
        self.client = InfluxDBClient(**support.arguments(database=DB))
        self.client.drop_database(DB)
        self.client.create_database(DB)
        self.addCleanup(self.client.close)

    def test_ping_gives_the_version(self):
        self.assertEqual(self.client.ping().split(".")[0], "1")

    def test_points_come_back_as_they_were_written(self):
        self.assertTrue(self.client.write_points(POINTS))
        rows = list(self.client.query("SELECT * FROM cpu").get_points())
        self.assertEqual(
            rows[0], {"time": "2020-01-01T00:00:00Z", "host": "a", "load": 1.5, "n": 1},
        )
        # Integers above 2^53 stay exact.
        self.assertEqual(sorted(row["n"] for row in rows), [-2, 1, 3, 9007199254740993])

    def test_times_of_every_precision(self):
        for precision, time in [("n", 1577836800000000001), ("u", 1577836800000001), ("ms", 1577836800001), ("s", 1577836801)]:
            self.client.write_points(
                [{"measurement": "at_" + precision, "fields": {"v": 1.0}, "time": time}], time_precision=precision
            )
            epoch = {"n": "ns"}.get(precision, precision)
            found = list(self.client.query("SELECT v FROM at_" + precision, epoch=epoch).get_points())
            self.assertEqual(found, [{"time": time, "v": 1.0}])

    def test_groups_have_their_tags(self):
        self.client.write_points(POINTS)
        answer = self.client.query(
            "SELECT mean(load) FROM cpu WHERE time >= '2020-01-01T00:00:00Z' AND time < '2020-01-01T00:02:00Z' "
            "GROUP BY time(2m), host"
        )
        self.assertEqual(answer.keys(), [("cpu", {"host": "a"}), ("cpu", {"host": "b"})])
        self.assertEqual([row["mean"] for row in answer.get_points(tags={"host": "a"})], [2.0])
        self.assertEqual([row["mean"] for row in answer.get_points(tags={"host": "b"})], [5.05])

    def test_absent_values_are_none(self):
        self.client.write_points(POINTS + [{"measurement": "cpu", "time": "2020-01-01T00:02:00Z", "fields": {"other": True}}])
        rows = list(self.client.query("SELECT host, load, other FROM cpu WHERE time = '2020-01-01T00:02:00Z'").get_points())
        self.assertEqual(rows, [{"time": "2020-01-01T00:02:00Z", "host": None, "load": None, "other": True}])

    def test_parameters_are_bound(self):
        self.client.write_points(POINTS)
        rows = self.client.query("SELECT load FROM cpu WHERE host = $host AND load > $least", bind_params={"host": "b", "least": 1})
        self.assertEqual([row["load"] for row in rows.get_points()], [10.0])

    def test_several_statements_have_several_results(self):
        self.client.write_points(POINTS)
        first, second = self.client.query("SELECT count(load) FROM cpu; SELECT sum(n) FROM cpu WHERE host = 'a'")
        self.assertEqual([row["count"] for row in first.get_points()], [4])
        self.assertEqual([row["sum"] for row in second.get_points()], [-1])

    def test_chunks(self):
        self.client.write_points([
            {"measurement": "long", "time": second, "fields": {"n": second}} for second in range(2500)
        ], time_precision="s", batch_size=1000)
        client = InfluxDBClient(**support.arguments(database=DB, headers={"Accept": "application/json"}))
        self.addCleanup(client.close)
        found = client.query("SELECT n FROM long", chunked=True, chunk_size=100)
        parts = [[row["n"] for row in part.get_points()] for part in found]
        self.assertEqual([len(part) for part in parts], [100] * 25)
        self.assertEqual(sum(parts, []), list(range(2500)))

    def test_gzip_both_ways(self):
        client = InfluxDBClient(**support.arguments(database=DB, gzip=True))
        self.addCleanup(client.close)
        client.write_points(POINTS)
        self.assertEqual([row["count"] for row in client.query("SELECT count(n) FROM cpu").get_points()], [4])

    def test_lists(self):
        self.client.write_points(POINTS)
        self.assertIn({"name": DB}, self.client.get_list_database())
        self.assertEqual(self.client.get_list_measurements(), [{"name": "cpu"}])
        self.assertEqual(self.client.get_list_series(), ["cpu,host=a", "cpu,host=b"])
        policy = self.client.get_list_retention_policies()[0]
        self.assertEqual((policy["name"], policy["duration"], policy["default"]), ("autogen", "0s", True))

    def test_retention_policies(self):
        self.client.create_retention_policy("month", "30d", 1, shard_duration="1d")
        self.client.write_points([{"measurement": "kept", "fields": {"v": 7}}], retention_policy="month")
        self.assertEqual([r["v"] for r in self.client.query('SELECT v FROM "month".kept').get_points()], [7])
        self.client.alter_retention_policy("month", duration="60d")
        found = {policy["name"]: policy["duration"] for policy in self.client.get_list_retention_policies()}
        self.assertEqual(found, {"autogen": "0s", "month": "1440h0m0s"})
        self.client.drop_retention_policy("month")
        self.assertEqual([p["name"] for p in self.client.get_list_retention_policies()], ["autogen"])

    def test_what_is_deleted_is_gone(self):
        self.client.write_points(POINTS)
        self.client.query("DELETE FROM cpu WHERE time < '2020-01-01T00:01:00Z'", method="POST")
        self.assertEqual([r["count"] for r in self.client.query("SELECT count(n) FROM cpu").get_points()], [2])
        self.client.delete_series(tags={"host": "a"})
        self.assertEqual(self.client.get_list_series(), ["cpu,host=b"])
        self.client.drop_measurement("cpu")
        self.assertEqual(self.client.get_list_measurements(), [])

    def test_errors_have_their_texts_and_codes(self):
        with self.assertRaises(InfluxDBClientError) as caught:
            self.client.query("SELECT FROM cpu")
        self.assertEqual(caught.exception.code, 400)
        self.assertIn("error parsing query: found FROM, expected identifier", str(caught.exception))
        with self.assertRaises(InfluxDBClientError) as caught:
            self.client.write_points(POINTS, database="python_nowhere")
        self.assertEqual(caught.exception.code, 404)
        self.assertIn('database not found: \\"python_nowhere\\"', str(caught.exception))
        self.client.write_points(POINTS)
        with self.assertRaises(InfluxDBClientError) as caught:
            # At the time of other points: there, types are those of a partition.
            self.client.write_points([{"measurement": "cpu", "time": "2020-01-01T00:00:07Z", "fields": {"n": "text"}}])
        self.assertEqual(caught.exception.code, 400)
        self.assertIn("partial write: field type conflict", str(caught.exception))


@unittest.skipUnless(support.USER, "users are asked for in the run with authentication")
class Users(unittest.TestCase):
    def setUp(self):
        self.client = InfluxDBClient(**support.arguments(database=DB))
        self.addCleanup(self.client.close)
        self.client.create_database(DB)
        self.client.write_points(POINTS)

    def refused(self, code, what):
        with self.assertRaises(InfluxDBClientError) as caught:
            what()
        self.assertEqual(caught.exception.code, code, caught.exception)
        return str(caught.exception)

    def test_a_reader_reads_and_writes_nothing(self):
        if support.READER in [user["user"] for user in self.client.get_list_users()]:
            self.client.drop_user(support.READER)
        self.client.create_user(support.READER, "it's me")
        self.client.grant_privilege("read", DB, support.READER)
        self.assertEqual(self.client.get_list_privileges(support.READER), [{"database": DB, "privilege": "READ"}])
        self.assertIn({"user": support.READER, "admin": False}, self.client.get_list_users())
        reader = InfluxDBClient(**{**support.arguments(database=DB), "username": support.READER, "password": "it's me"})
        self.addCleanup(reader.close)
        self.assertEqual([row["count"] for row in reader.query("SELECT count(n) FROM cpu").get_points()], [4])
        self.assertIn("is not authorized to write", self.refused(403, lambda: reader.write_points(POINTS)))
        with self.assertRaises(InfluxDBClientError):
            reader.query("DROP MEASUREMENT cpu", method="POST")
        with self.assertRaises(InfluxDBClientError):
            reader.drop_database(DB)
        self.client.revoke_privilege("read", DB, support.READER)
        with self.assertRaises(InfluxDBClientError):
            reader.query("SELECT count(n) FROM cpu")
        self.assertEqual([row["count"] for row in self.client.query("SELECT count(n) FROM cpu").get_points()], [4])

    def test_a_wrong_password_is_refused_and_a_new_one_holds_at_once(self):
        wrong = InfluxDBClient(**{**support.arguments(database=DB), "password": "wrong"})
        self.addCleanup(wrong.close)
        self.assertIn("authorization failed", self.refused(401, lambda: wrong.query("SHOW DATABASES")))
        nobody = InfluxDBClient(**{**support.arguments(database=DB), "username": None, "password": None})
        self.addCleanup(nobody.close)
        self.refused(401, lambda: nobody.write_points(POINTS))
        name = "python_changing"
        if name in [user["user"] for user in self.client.get_list_users()]:
            self.client.drop_user(name)
        self.client.create_user(name, "first", admin=True)
        user = InfluxDBClient(**{**support.arguments(database=DB), "username": name, "password": "first"})
        self.addCleanup(user.close)
        self.assertIn({"name": DB}, user.get_list_database())
        self.client.set_user_password(name, "second")
        self.refused(401, user.get_list_database)
        user.switch_user(name, "second")
        self.assertIn({"name": DB}, user.get_list_database())
        self.client.drop_user(name)
        self.refused(401, user.get_list_database)


if __name__ == "__main__":
    unittest.main()
