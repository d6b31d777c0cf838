// The package `influx` of Node: points, statements, lists, users, as its users write them.
//
// Where the server is and who asks, the script that starts it says in variables; without a user it asks nobody.
"use strict";

const assert = require("node:assert/strict");
const { test, beforeEach } = require("node:test");
const Influx = require("influx");

const url = new URL(process.env.CLIENT_URL);
const user = process.env.CLIENT_USER;
const database = "node_client";

const connect = (more) =>
  new Influx.InfluxDB({
    host: url.hostname,
    port: Number(url.port),
    database,
    ...(user ? { username: user, password: process.env.CLIENT_PASSWORD } : {}),
    schema: [
      {
        measurement: "cpu",
        fields: { load: Influx.FieldType.FLOAT, n: Influx.FieldType.INTEGER, ok: Influx.FieldType.BOOLEAN, text: Influx.FieldType.STRING },
        tags: ["host"],
      },
    ],
    ...more,
  });

const influx = connect();
const begin = new Date("2020-01-01T00:00:00Z");
const minute = new Date("2020-01-01T00:01:00Z");

beforeEach(async () => {
  await influx.dropDatabase(database);
  await influx.createDatabase(database);
  await influx.writePoints([
    { measurement: "cpu", tags: { host: "a" }, fields: { load: 1.5, n: 1, ok: true, text: 'x "y"' }, timestamp: begin },
    { measurement: "cpu", tags: { host: "a" }, fields: { load: 2.5, n: -2 }, timestamp: minute },
    { measurement: "cpu", tags: { host: "b c" }, fields: { load: 10, n: 3 }, timestamp: begin },
  ]);
});

test("ping says that the server is there, and its version", async () => {
  const [host] = await influx.ping(10000);
  assert.equal(host.online, true);
  assert.match(host.version, /^1\./);
});

test("points come back as they were written", async () => {
  const rows = await influx.query("SELECT load, n, ok, text, host FROM cpu WHERE host = 'a'");
  assert.equal(rows.length, 2);
  assert.equal(rows[0].time.getTime(), begin.getTime());
  assert.deepEqual([rows[0].load, rows[0].n, rows[0].ok, rows[0].text, rows[0].host], [1.5, 1, true, 'x "y"', "a"]);
  assert.deepEqual([rows[1].load, rows[1].n, rows[1].ok, rows[1].text], [2.5, -2, null, null]);
});

test("nanoseconds of times are kept", async () => {
  await influx.writePoints([{ measurement: "fine", fields: { v: 1 }, timestamp: "1577836800000000001" }], { precision: "n" });
  const rows = await influx.query("SELECT v FROM fine");
  assert.equal(rows[0].time.getNanoTime(), "1577836800000000001");
});

test("precisions of writes", async () => {
  for (const precision of ["n", "u", "ms", "s", "m", "h"]) {
    await influx.writeMeasurement("at_" + precision, [{ fields: { v: 1 }, timestamp: begin }], { precision });
    const rows = await influx.query("SELECT v FROM at_" + precision);
    assert.equal(rows[0].time.getTime(), begin.getTime(), precision);
  }
});

test("groups have their tags", async () => {
  const answer = await influx.query(
    "SELECT mean(load) AS load FROM cpu WHERE time >= '2020-01-01T00:00:00Z' AND time < '2020-01-01T00:02:00Z' GROUP BY time(2m), host",
  );
  assert.deepEqual(answer.groups().map((group) => [group.tags.host, group.rows.map((row) => row.load)]), [["a", [2]], ["b c", [10]]]);
});

test("several statements have several results", async () => {
  const [counts, sums] = await influx.query(["SELECT count(load) FROM cpu", "SELECT sum(n) FROM cpu WHERE host = 'a'"]);
  assert.deepEqual([counts[0].count, sums[0].sum], [3, -1]);
});

test("placeholders are bound", async () => {
  const rows = await influx.query("SELECT load FROM cpu WHERE host = $host", { placeholders: { host: "b c" } });
  assert.deepEqual(rows.map((row) => row.load), [10]);
});

test("lists", async () => {
  assert.ok((await influx.getDatabaseNames()).includes(database));
  assert.deepEqual(await influx.getMeasurements(), ["cpu"]);
  assert.deepEqual(await influx.getSeries(), ["cpu,host=a", "cpu,host=b\\ c"]);
  assert.deepEqual(await influx.getSeries({ measurement: "nothing" }), []);
});

test("retention policies", async () => {
  await influx.createRetentionPolicy("week", { database, duration: "7d", replication: 1 });
  await influx.writePoints([{ measurement: "kept", fields: { v: 7 } }], { retentionPolicy: "week" });
  assert.deepEqual((await influx.query("SELECT v FROM week.kept")).map((row) => row.v), [7]);
  await influx.alterRetentionPolicy("week", { database, duration: "14d", replication: 1 });
  const policies = await influx.showRetentionPolicies(database);
  assert.deepEqual(policies.map((policy) => [policy.name, policy.duration, policy.default]), [
    ["autogen", "0s", true],
    ["week", "336h0m0s", false],
  ]);
  await influx.dropRetentionPolicy("week", database);
  assert.equal((await influx.showRetentionPolicies(database)).length, 1);
});

test("what is dropped is gone", async () => {
  await influx.dropSeries({ measurement: (m) => m.name("cpu"), where: (w) => w.tag("host").equals.value("a") });
  assert.deepEqual(await influx.getSeries(), ["cpu,host=b\\ c"]);
  await influx.query("DELETE FROM cpu WHERE time = '2020-01-01T00:00:00Z'");
  assert.deepEqual((await influx.query("SELECT load FROM cpu")).length, 0);
  await influx.writePoints([{ measurement: "cpu", tags: { host: "a" }, fields: { load: 1 } }]);
  await influx.dropMeasurement("cpu");
  assert.deepEqual(await influx.getMeasurements(), []);
});

test("errors have their texts", async () => {
  await assert.rejects(influx.query("SELECT FROM cpu"), /found FROM, expected identifier, string, number, bool at line 1, char 8/);
  await assert.rejects(influx.query("SELECT mean(load), n FROM cpu"), /mixing aggregate and non-aggregate queries is not supported/);
  await assert.rejects(influx.writePoints([{ measurement: "m", fields: { v: 1 } }], { database: "node_nowhere" }), /database not found: \\?"node_nowhere\\?"/);
  await assert.rejects(influx.writePoints([{ measurement: "untyped", fields: { v: 1 } }, { measurement: "untyped", fields: { v: "x" } }]), /field type conflict/);
});

test("users are made, let in and kept out", async () => {
  if (!user) {
    // Who sends a name to a server that asks nobody is let in whoever that is.
    assert.deepEqual(await connect({ username: "node_nobody", password: "x" }).getMeasurements(), ["cpu"]);
    return;
  }
  const name = "node_reader";
  if ((await influx.getUsers()).some((found) => found.user === name)) {
    await influx.dropUser(name);
  }
  await influx.createUser(name, "it's me");
  await influx.grantPrivilege(name, "READ", database);
  assert.ok((await influx.getUsers()).some((found) => found.user === name && found.admin === false));
  const reader = connect({ username: name, password: "it's me" });
  assert.equal((await reader.query("SELECT load FROM cpu")).length, 3);
  await assert.rejects(reader.writePoints([{ measurement: "m", fields: { v: 1 } }]), /not authorized to write/);
  await assert.rejects(reader.dropMeasurement("cpu"), /not authorized|requires/);
  await assert.rejects(connect({ username: name, password: "wrong" }).getMeasurements(), /authorization failed/);
  await influx.revokePrivilege(name, "READ", database);
  await assert.rejects(reader.query("SELECT load FROM cpu"));
  assert.equal((await influx.query("SELECT load FROM cpu")).length, 3);
});
