// node-postgres, which sends values as text without their types.
'use strict'
const test = require('node:test')
const assert = require('node:assert')
const { Client } = require('pg')

async function connected(run) {
  const client = new Client()
  await client.connect()
  try {
    await client.query('DROP TABLE IF EXISTS j')
    await client.query('CREATE TABLE j (time timestamptz, v double precision, n bigint, ok boolean, name text)')
    await run(client)
  } finally {
    await client.end()
  }
}

test('values are written and read', () =>
  connected(async (client) => {
    const time = new Date('2024-05-01T00:00:00.123Z')
    const insert = 'INSERT INTO j (time, v, n, ok, name) VALUES ($1, $2, $3, $4, $5)'
    assert.strictEqual((await client.query(insert, [time, 1.5, 7, true, "a'b"])).rowCount, 1)
    assert.strictEqual((await client.query(insert, [new Date('2024-05-02Z'), null, null, null, null])).rowCount, 1)
    const { rows } = await client.query('SELECT * FROM j ORDER BY time')
    assert.deepStrictEqual(rows[0], { time, v: 1.5, n: '7', ok: true, name: "a'b" })
    assert.strictEqual(rows[1].v, null)
  }))

test('a number is compared as a number, although it is sent as text', () =>
  connected(async (client) => {
    await client.query("INSERT INTO j (time, v, n) VALUES ('2024-05-01 00:00:00Z', 9, 9)")
    assert.strictEqual((await client.query('SELECT v FROM j WHERE v < $1 AND n < $2 LIMIT $3', [10, 10, 5])).rowCount, 1)
  }))

test('named statements, errors and several statements in one message', () =>
  connected(async (client) => {
    for (const n of [1, 2, 3]) {
      const { rows } = await client.query({ name: 'one', text: 'SELECT $1::bigint AS n', values: [n] })
      assert.strictEqual(rows[0].n, String(n))
    }
    await assert.rejects(client.query('SELECT nothing FROM j'), { code: '42703', position: '8' })
    const answers = await client.query('SELECT 1 AS a; SELECT 2 AS b')
    assert.deepStrictEqual(answers.map((answer) => answer.rows.length), [1, 1])
  }))
