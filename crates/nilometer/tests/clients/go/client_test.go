// Package clients has the Go client of InfluxDB 1 talk to a server: points, statements, chunks, parameters, users.
//
// Where the server is and who asks, the script that starts it says in variables; without a user it asks nobody.
package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	client "github.com/influxdata/influxdb1-client/v2"
)

const database = "go_client"

func connect(t *testing.T, user, password string) client.Client {
	t.Helper()
	config := client.HTTPConfig{Addr: os.Getenv("CLIENT_URL"), Username: user, Password: password, Timeout: time.Minute}
	c, err := client.NewHTTPClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func own(t *testing.T) client.Client {
	t.Helper()
	return connect(t, os.Getenv("CLIENT_USER"), os.Getenv("CLIENT_PASSWORD"))
}

func ask(t *testing.T, c client.Client, statement string) []client.Result {
	t.Helper()
	response, err := c.Query(client.NewQuery(statement, database, "ns"))
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	if response.Error() != nil {
		t.Fatalf("%s: %v", statement, response.Error())
	}
	return response.Results
}

// shown prints the series of a result: name, tags, columns and values.
func shown(result client.Result) string {
	var out strings.Builder
	for _, row := range result.Series {
		fmt.Fprintf(&out, "%s%v%v%v", row.Name, row.Tags, row.Columns, row.Values)
	}
	return out.String()
}

// failure is what the server says against a statement, whichever way it says it.
func failure(c client.Client, statement string) string {
	response, err := c.Query(client.NewQuery(statement, database, ""))
	if err == nil {
		err = response.Error()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func expect(t *testing.T, c client.Client, statement, wanted string) {
	t.Helper()
	if found := shown(ask(t, c, statement)[0]); found != wanted {
		t.Errorf("%s:\nfound  %s\nwanted %s", statement, found, wanted)
	}
}

func write(t *testing.T, c client.Client, config client.BatchPointsConfig, points ...*client.Point) error {
	t.Helper()
	batch, err := client.NewBatchPoints(config)
	if err != nil {
		t.Fatal(err)
	}
	batch.AddPoints(points)
	return c.Write(batch)
}

func point(t *testing.T, name string, tags map[string]string, fields map[string]interface{}, at int64) *client.Point {
	t.Helper()
	p, err := client.NewPoint(name, tags, fields, time.Unix(0, at))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// prepared gives an empty database with four points of two hosts.
func prepared(t *testing.T) client.Client {
	t.Helper()
	c := own(t)
	ask(t, c, "DROP DATABASE "+database)
	ask(t, c, "CREATE DATABASE "+database)
	const begin = 1577836800_000000000
	err := write(t, c, client.BatchPointsConfig{Database: database},
		point(t, "cpu", map[string]string{"host": "a"}, map[string]interface{}{"load": 1.5, "n": int64(1), "ok": true}, begin),
		point(t, "cpu", map[string]string{"host": "a"}, map[string]interface{}{"load": 2.5, "n": int64(-2), "text": "x \"y\" \\z"}, begin+60_000000000),
		point(t, "cpu", map[string]string{"host": "b c"}, map[string]interface{}{"load": 10.0, "n": int64(9007199254740993)}, begin),
		point(t, "cpu", map[string]string{"host": "b c"}, map[string]interface{}{"load": 0.1, "n": int64(4)}, begin+60_000000001),
	)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPingGivesTheVersion(t *testing.T) {
	_, version, err := own(t).Ping(10 * time.Second)
	if err != nil || !strings.HasPrefix(version, "1.") {
		t.Fatalf("%q, %v", version, err)
	}
}

func TestPointsComeBackAsTheyWereWritten(t *testing.T) {
	c := prepared(t)
	expect(t, c, "SELECT load, n, ok, text FROM cpu WHERE host = 'a'",
		`cpumap[][time load n ok text][[1577836800000000000 1.5 1 true <nil>] [1577836860000000000 2.5 -2 <nil> x "y" \z]]`)
	expect(t, c, "SELECT n FROM cpu GROUP BY host ORDER BY time DESC LIMIT 1",
		`cpumap[host:b c][time n][[1577836860000000001 4]]cpumap[host:a][time n][[1577836860000000000 -2]]`)
	rows := ask(t, c, "SELECT n FROM cpu WHERE host = 'b c' LIMIT 1")[0].Series[0].Values
	if n, err := rows[0][1].(json.Number).Int64(); err != nil || n != 9007199254740993 {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestBucketsAndFills(t *testing.T) {
	c := prepared(t)
	expect(t, c, "SELECT sum(load) FROM cpu WHERE time >= 1577836800s AND time < 1577836920s GROUP BY time(30s) FILL(0)",
		`cpumap[][time sum][[1577836800000000000 11.5] [1577836830000000000 0] [1577836860000000000 2.6] [1577836890000000000 0]]`)
}

func TestPrecisionsOfWrites(t *testing.T) {
	c := prepared(t)
	// The client's own word for microseconds, "us", is refused by version 1.12, so nobody writes with it.
	for _, precision := range []string{"ns", "ms", "s", "m", "h"} {
		config := client.BatchPointsConfig{Database: database, Precision: precision}
		err := write(t, c, config, point(t, "at", map[string]string{"p": precision}, map[string]interface{}{"v": 1.0}, 1577836800_000000000))
		if err != nil {
			t.Fatalf("%s: %v", precision, err)
		}
		expect(t, c, "SELECT v FROM at WHERE p = '"+precision+"'", `atmap[][time v][[1577836800000000000 1]]`)
	}
}

func TestParametersAreBound(t *testing.T) {
	c := prepared(t)
	query := client.NewQueryWithParameters("SELECT load FROM cpu WHERE host = $host AND load > $least", database, "s",
		map[string]interface{}{"host": "b c", "least": 1})
	response, err := c.Query(query)
	if err != nil || response.Error() != nil {
		t.Fatal(err, response.Error())
	}
	if found := shown(response.Results[0]); found != `cpumap[][time load][[1577836800 10]]` {
		t.Error(found)
	}
}

func TestChunksArriveOneAfterTheOther(t *testing.T) {
	c := prepared(t)
	points := make([]*client.Point, 2500)
	for n := range points {
		points[n] = point(t, "long", nil, map[string]interface{}{"n": int64(n)}, int64(n))
	}
	if err := write(t, c, client.BatchPointsConfig{Database: database}, points...); err != nil {
		t.Fatal(err)
	}
	query := client.NewQuery("SELECT n FROM long", database, "ns")
	query.Chunked, query.ChunkSize = true, 1000
	answer, err := c.QueryAsChunk(query)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	var sizes []int
	next := 0
	for {
		response, err := answer.NextResponse()
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			break
		}
		if response == nil {
			break
		}
		for _, row := range response.Results[0].Series {
			sizes = append(sizes, len(row.Values))
			for _, value := range row.Values {
				if value[1].(json.Number).String() != fmt.Sprint(next) {
					t.Fatalf("%v where %d should be", value, next)
				}
				next++
			}
		}
	}
	if fmt.Sprint(sizes) != "[1000 1000 500]" {
		t.Errorf("chunks of %v rows", sizes)
	}
}

func TestListsAndChanges(t *testing.T) {
	c := prepared(t)
	expect(t, c, "SHOW SERIES", `map[][key][[cpu,host=a] [cpu,host=b\ c]]`)
	expect(t, c, "SHOW TAG VALUES WITH KEY = host", `cpumap[][key value][[host a] [host b c]]`)
	expect(t, c, "SHOW FIELD KEYS", `cpumap[][fieldKey fieldType][[load float] [n integer] [ok boolean] [text string]]`)
	ask(t, c, "SELECT mean(load) INTO means FROM cpu GROUP BY host")
	expect(t, c, "SELECT mean FROM means WHERE host = 'a'", `meansmap[][time mean][[0 2]]`)
	ask(t, c, "DELETE FROM cpu WHERE host = 'a' AND time < 1577836860s")
	expect(t, c, "SELECT count(load) FROM cpu", `cpumap[][time count][[0 3]]`)
	ask(t, c, "DROP SERIES FROM cpu WHERE host = 'a'")
	expect(t, c, "SHOW SERIES FROM cpu", `map[][key][[cpu,host=b\ c]]`)
	ask(t, c, "DROP MEASUREMENT means")
	expect(t, c, "SHOW MEASUREMENTS", `measurementsmap[][name][[cpu]]`)
}

func TestErrors(t *testing.T) {
	c := prepared(t)
	if why := failure(c, "SELECT FROM cpu"); !strings.Contains(why, "error parsing query: found FROM, expected identifier, string, number, bool at line 1, char 8") {
		t.Error(why)
	}
	if why := failure(c, "SELECT mean(load), n FROM cpu"); !strings.Contains(why, "mixing aggregate and non-aggregate queries is not supported") {
		t.Error(why)
	}
	err := write(t, c, client.BatchPointsConfig{Database: "go_nowhere"}, point(t, "m", nil, map[string]interface{}{"v": 1.0}, 1))
	if err == nil || !strings.Contains(err.Error(), `database not found: \"go_nowhere\"`) {
		t.Error(err)
	}
	err = write(t, c, client.BatchPointsConfig{Database: database}, point(t, "cpu", nil, map[string]interface{}{"load": "text"}, 1577836800_000000005))
	if err == nil || !strings.Contains(err.Error(), "partial write: field type conflict: input field") {
		t.Error(err)
	}
}

func TestUsers(t *testing.T) {
	if os.Getenv("CLIENT_USER") == "" {
		// Who sends a name to a server that asks nobody is let in whoever that is.
		if why := failure(connect(t, "go_nobody", "x"), "SHOW DATABASES"); why != "" {
			t.Error(why)
		}
		return
	}
	c := prepared(t)
	if strings.Contains(shown(ask(t, c, "SHOW USERS")[0]), "[go_writer false]") {
		ask(t, c, "DROP USER go_writer")
	}
	ask(t, c, "CREATE USER go_writer WITH PASSWORD 'secret'; GRANT WRITE ON "+database+" TO go_writer")
	expect(t, c, "SHOW GRANTS FOR go_writer", "map[][database privilege][["+database+" WRITE]]")
	writer := connect(t, "go_writer", "secret")
	if err := write(t, writer, client.BatchPointsConfig{Database: database}, point(t, "own", nil, map[string]interface{}{"v": 1.0}, 1)); err != nil {
		t.Error(err)
	}
	for _, statement := range []string{"SELECT v FROM own", "DROP DATABASE " + database, "DROP MEASUREMENT own", "SHOW USERS"} {
		if why := failure(writer, statement); !strings.Contains(why, "not authorized") && !strings.Contains(why, "administrator") && !strings.Contains(why, "requires") {
			t.Errorf("a writer may %s: %q", statement, why)
		}
	}
	expect(t, c, "SELECT v FROM own", `ownmap[][time v][[1 1]]`)
	if why := failure(connect(t, "go_writer", "wrong"), "SHOW DATABASES"); !strings.Contains(why, "authorization failed") {
		t.Error(why)
	}
}
