// What the loader of the Time Series Benchmark Suite does for TimescaleDB, statement by statement and with its drivers (pgx 4.8.0,
// lib/pq), and its query types with the answers that TimescaleDB gave (testdata/tsbs).
package client

import (
	"bufio"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgtype"
	pgx4 "github.com/jackc/pgx/v4"
	"github.com/lib/pq"
)

const (
	timestamptz = 1184
	numeric     = 1700
	interval    = 1186
)

var hostTags = []string{"hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version", "service_environment"}
var cpuFields = []string{"usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait", "usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice"}

// data opens a file of testdata/tsbs.
func data(t *testing.T, name string) *bufio.Scanner {
	t.Helper()
	file, err := os.Open(filepath.Join(os.Getenv("TSBS_DATA"), name))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 16<<20)
	return lines
}

func dial(t *testing.T, database string) *pgx4.Conn {
	t.Helper()
	conn, err := pgx4.Connect(context.Background(), "sslmode=disable dbname="+database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx4.Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := conn.Exec(context.Background(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// fresh makes a database as the loader does.
func fresh(t *testing.T, database string) *pgx4.Conn {
	t.Helper()
	ctx, admin := context.Background(), dial(t, "postgres")
	rows, err := admin.Query(ctx, "SELECT 1 from pg_database WHERE datname = $1", database)
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	run(t, admin, "DROP DATABASE IF EXISTS "+database, "CREATE DATABASE "+database)
	return dial(t, database)
}

func columns(names []string, kind string) string {
	return strings.Join(names, " "+kind+", ") + " " + kind
}

// table makes a table of measurements. `tag` is the column that its index begins with, `call` what follows the names in create_hypertable;
// without it the table stays plain.
func table(t *testing.T, conn *pgx4.Conn, name, tag, tagColumn, fields, call string) {
	t.Helper()
	run(t, conn,
		"DROP TABLE IF EXISTS "+name,
		"CREATE TABLE "+name+" (time timestamptz, tags_id integer, "+tagColumn+fields+", additional_tags JSONB DEFAULT NULL)",
		"CREATE INDEX ON "+name+"("+tag+", \"time\" DESC)",
		"CREATE INDEX ON "+name+"(\"time\" DESC)",
	)
	if call == "" {
		return
	}
	run(t, conn,
		"CREATE EXTENSION IF NOT EXISTS timescaledb CASCADE",
		"SELECT create_hypertable('"+name+"'::regclass, 'time'::name, "+call+")",
	)
}

type host struct {
	tags []string
	id   int64
}

type point struct {
	at     time.Time
	host   *host
	fields []float64
}

// cpu reads the points of cpu-only, and their hosts in the order in which they come.
func cpu(t *testing.T) ([]*host, []point) {
	t.Helper()
	var hosts []*host
	var points []point
	known := map[string]*host{}
	lines := data(t, "cpu-only.influx.gz")
	for lines.Scan() {
		parts := strings.Split(lines.Text(), " ")
		if known[parts[0]] == nil {
			made := &host{}
			for _, tag := range strings.Split(parts[0], ",")[1:] {
				made.tags = append(made.tags, tag[strings.Index(tag, "=")+1:])
			}
			known[parts[0]] = made
			hosts = append(hosts, made)
		}
		next := point{host: known[parts[0]]}
		ns, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		next.at = time.Unix(0, ns).UTC()
		for _, field := range strings.Split(parts[1], ",") {
			value, err := strconv.ParseFloat(strings.TrimSuffix(field[strings.Index(field, "=")+1:], "i"), 64)
			if err != nil {
				t.Fatal(err)
			}
			next.fields = append(next.fields, value)
		}
		points = append(points, next)
	}
	if len(hosts) != 10 || len(points) != 46800 {
		t.Fatal(len(hosts), len(points))
	}
	return hosts, points
}

// keep inserts hosts into the tags table as the loader does, and notes the numbers that they get.
func keep(t *testing.T, conn *pgx4.Conn, hosts []*host, columns []string, value func(*host) []string) {
	t.Helper()
	ctx := context.Background()
	var rows []string
	byKey := map[string]*host{}
	for _, host := range hosts {
		values := value(host)
		byKey[values[0]] = host
		rows = append(rows, "('"+strings.Join(values, "','")+"')")
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	found, err := tx.Query(ctx, "INSERT INTO tags("+strings.Join(columns, ",")+") VALUES "+strings.Join(rows, ",")+" ON CONFLICT DO NOTHING RETURNING *")
	if err != nil {
		t.Fatal(err)
	}
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			t.Fatal(err)
		}
		id, is := values[0].(int32)
		if !is {
			t.Fatalf("the id is a %T", values[0])
		}
		key := fmt.Sprint(values[1])
		if text, err := json.Marshal(values[1]); len(columns) == 1 && err == nil {
			key = string(text)
		}
		if byKey[key] == nil {
			t.Fatalf("%s was not sent", key)
		}
		byKey[key].id = int64(id)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

func tagsTable(t *testing.T, conn *pgx4.Conn) {
	t.Helper()
	run(t, conn,
		"DROP TABLE IF EXISTS tags",
		"CREATE TABLE tags(id SERIAL PRIMARY KEY, "+columns(hostTags, "TEXT")+")",
		"CREATE UNIQUE INDEX uniq1 ON tags("+strings.Join(hostTags, ",")+")",
		"CREATE INDEX ON tags(hostname)",
	)
}

// copied sends points by binary COPY.
func copied(t *testing.T, conn *pgx4.Conn, points []point, hasHost bool) {
	t.Helper()
	names := []string{"time", "tags_id", "additional_tags"}
	if hasHost {
		names = append(names, "hostname")
	}
	names = append(names, cpuFields...)
	var rows [][]interface{}
	for _, point := range points {
		row := []interface{}{point.at, point.host.id, nil}
		if hasHost {
			row = append(row, point.host.tags[0])
		}
		for _, value := range point.fields {
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	count, err := conn.CopyFrom(context.Background(), pgx4.Identifier{"cpu"}, names, pgx4.CopyFromRows(rows))
	if err != nil || count != int64(len(points)) {
		t.Fatal(count, err)
	}
}

func number(t *testing.T, conn *pgx4.Conn, text string) int64 {
	t.Helper()
	var found int64
	if err := conn.QueryRow(context.Background(), text).Scan(&found); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return found
}

// Each of the forms in which the loader makes a hypertable.
func TestTsbsMakesHypertables(t *testing.T) {
	for nth, call := range []string{
		"replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE",
		"partitioning_column => 'tags_id'::name, number_partitions => 4::smallint, replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE",
		"replication_factor => 1::smallint, chunk_time_interval => 43200000000, create_default_indexes=>FALSE",
	} {
		conn := fresh(t, "tsbs_made")
		table(t, conn, "cpu", "tags_id", "", columns(cpuFields, "DOUBLE PRECISION"), call)
		if found := number(t, conn, "SELECT num_dimensions::bigint FROM timescaledb_information.hypertables WHERE hypertable_name = 'cpu'"); found != []int64{1, 2, 1}[nth] {
			t.Fatal(call, found)
		}
		if found := number(t, conn, "SELECT count(*) FROM pg_indexes WHERE tablename = 'cpu'"); found != 2 {
			t.Fatal(call, found)
		}
		if found := number(t, conn, "SELECT count(*) FROM pg_tables WHERE tablename = 'cpu'"); found != 1 {
			t.Fatal(call, found)
		}
		run(t, conn, "DROP TABLE cpu")
	}
}

func TestTsbsTagsTable(t *testing.T) {
	conn := fresh(t, "tsbs_tags")
	hosts, points := cpu(t)
	tagsTable(t, conn)
	table(t, conn, "cpu", "tags_id", "", columns(cpuFields, "DOUBLE PRECISION"), "replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE")
	own := func(host *host) []string { return host.tags }
	keep(t, conn, hosts, hostTags, own)
	for nth, host := range hosts {
		if host.id != int64(nth)+1 {
			t.Fatal(host)
		}
	}
	// Those that are there keep their numbers, and are not answered.
	keep(t, conn, hosts, hostTags, own)
	copied(t, conn, points, false)
	asked(t, conn, "cpu-only", 57)
}

// Hosts as a column of the table itself, which becomes its tag.
func TestTsbsInTableTag(t *testing.T) {
	conn := fresh(t, "tsbs_in_table")
	hosts, points := cpu(t)
	tagsTable(t, conn)
	table(t, conn, "cpu", "hostname", "hostname TEXT, ", columns(cpuFields, "DOUBLE PRECISION"), "replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE")
	keep(t, conn, hosts, hostTags, func(host *host) []string { return host.tags })
	copied(t, conn, points, true)
	if found := number(t, conn, "SELECT count(*) FROM cpu WHERE hostname IN ('host_3')"); found != 4680 {
		t.Fatal(found)
	}
	if found := number(t, conn, "SELECT count(*) FROM system.columns WHERE table_name = 'cpu' AND kind = 'tag' AND column_name = 'hostname' AND database_name = 'tsbs_in_table'"); found != 1 {
		t.Fatal(found)
	}
}

func TestTsbsJsonTags(t *testing.T) {
	conn := fresh(t, "tsbs_json")
	hosts, points := cpu(t)
	run(t, conn,
		"DROP TABLE IF EXISTS tags",
		"CREATE TABLE tags(id SERIAL PRIMARY KEY, tagset JSONB)",
		"CREATE UNIQUE INDEX uniq1 ON tags(tagset)",
		"CREATE INDEX idxginp ON tags USING gin (tagset jsonb_path_ops);",
	)
	table(t, conn, "cpu", "tags_id", "", columns(cpuFields, "DOUBLE PRECISION"), "replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE")
	keep(t, conn, hosts, []string{"tagset"}, func(host *host) []string {
		pairs := map[string]string{}
		for nth, name := range hostTags {
			pairs[name] = host.tags[nth]
		}
		text, err := json.Marshal(pairs)
		if err != nil {
			t.Fatal(err)
		}
		return []string{string(text)}
	})
	copied(t, conn, points, false)
	if found := number(t, conn, "SELECT count(*) FROM cpu c JOIN tags t ON c.tags_id = t.id WHERE t.id = 10"); found != 4680 {
		t.Fatal(found)
	}
}

// --force-text-format: lib/pq, in a transaction.
func TestTsbsTextCopy(t *testing.T) {
	conn := fresh(t, "tsbs_text")
	hosts, points := cpu(t)
	tagsTable(t, conn)
	table(t, conn, "cpu", "tags_id", "", columns(cpuFields, "DOUBLE PRECISION"), "replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE")
	keep(t, conn, hosts, hostTags, func(host *host) []string { return host.tags })
	db, err := sql.Open("postgres", "sslmode=disable dbname=tsbs_text")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	send := func(finish func(*sql.Tx) error) {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		stmt, err := tx.Prepare(pq.CopyIn("cpu", append([]string{"time", "tags_id", "additional_tags"}, cpuFields...)...))
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range points {
			row := []interface{}{point.at, point.host.id, nil}
			for _, value := range point.fields {
				row = append(row, value)
			}
			if _, err := stmt.Exec(row...); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := stmt.Exec(); err != nil {
			t.Fatal(err)
		}
		if err := stmt.Close(); err != nil {
			t.Fatal(err)
		}
		if err := finish(tx); err != nil {
			t.Fatal(err)
		}
	}
	send((*sql.Tx).Rollback)
	if found := number(t, conn, "SELECT count(*) FROM cpu"); found != 0 {
		t.Fatal(found)
	}
	send((*sql.Tx).Commit)
	if found := number(t, conn, "SELECT count(*) FROM cpu"); found != 46800 {
		t.Fatal(found)
	}
}

// --use-insert: one prepared statement with as many parameters as the protocol has; --use-hypertable=false: a plain table.
func TestTsbsPreparedInsertIntoPlainTable(t *testing.T) {
	conn, ctx := fresh(t, "tsbs_insert"), context.Background()
	hosts, points := cpu(t)
	tagsTable(t, conn)
	table(t, conn, "cpu", "tags_id", "", columns(cpuFields, "DOUBLE PRECISION"), "")
	keep(t, conn, hosts, hostTags, func(host *host) []string { return host.tags })
	names := append([]string{"time", "tags_id", "additional_tags"}, cpuFields...)
	const batch = 1000
	var groups []string
	for row := 0; row < batch; row++ {
		var places []string
		for column := range names {
			places = append(places, "$"+strconv.Itoa(row*len(names)+column+1))
		}
		groups = append(groups, "("+strings.Join(places, ",")+")")
	}
	if _, err := conn.Prepare(ctx, "insert", "INSERT INTO cpu("+strings.Join(names, ",")+") VALUES "+strings.Join(groups, ",")); err != nil {
		t.Fatal(err)
	}
	for from := 0; from+batch <= 10000; from += batch {
		var values []interface{}
		for _, point := range points[from : from+batch] {
			values = append(values, point.at, point.host.id, nil)
			for _, value := range point.fields {
				values = append(values, value)
			}
		}
		if tag, err := conn.Exec(ctx, "insert", values...); err != nil || tag.RowsAffected() != batch {
			t.Fatal(tag, err)
		}
	}
	if found := number(t, conn, "SELECT count(*) FROM cpu c JOIN tags t ON c.tags_id = t.id WHERE t.hostname = 'host_0'"); found != 1000 {
		t.Fatal(found)
	}
}

// The trucks, as TimescaleDB's loader left them: its numbers of tags are given, and numbers go on behind them.
func TestTsbsIot(t *testing.T) {
	conn := fresh(t, "tsbs_iot")
	run(t, conn,
		"CREATE TABLE tags(id SERIAL PRIMARY KEY, name TEXT, fleet TEXT, driver TEXT, model TEXT, device_version TEXT, load_capacity DOUBLE PRECISION, fuel_capacity DOUBLE PRECISION, nominal_fuel_consumption DOUBLE PRECISION)",
		"CREATE INDEX ON tags(name)",
	)
	made := "replication_factor => NULL, chunk_time_interval => 43200000000, create_default_indexes=>FALSE"
	table(t, conn, "readings", "tags_id", "", columns([]string{"latitude", "longitude", "elevation", "velocity", "heading", "grade", "fuel_consumption"}, "DOUBLE PRECISION"), made)
	table(t, conn, "diagnostics", "tags_id", "", columns([]string{"fuel_state", "current_load", "status"}, "DOUBLE PRECISION"), made)
	for _, name := range []string{"tags", "readings", "diagnostics"} {
		lines := data(t, "iot."+name+".csv.gz")
		var text []string
		for lines.Scan() {
			text = append(text, lines.Text())
		}
		rows, err := csv.NewReader(strings.NewReader(strings.Join(text, "\n"))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var values [][]interface{}
		for _, row := range rows[1:] {
			values = append(values, read(t, rows[0], row))
		}
		count, err := conn.CopyFrom(context.Background(), pgx4.Identifier{name}, rows[0], pgx4.CopyFromRows(values))
		if err != nil || count != int64(len(rows)-1) {
			t.Fatal(name, count, err)
		}
	}
	asked(t, conn, "iot", 40)
}

// read makes values of the cells of a row.
func read(t *testing.T, names, cells []string) []interface{} {
	t.Helper()
	var values []interface{}
	for nth, cell := range cells {
		var value interface{}
		var err error
		switch {
		case cell == "":
		case names[nth] == "time":
			value, err = time.Parse("2006-01-02 15:04:05-07", cell)
		case names[nth] == "id" || names[nth] == "tags_id":
			value, err = strconv.ParseInt(cell, 10, 64)
		default:
			switch names[nth] {
			case "name", "fleet", "driver", "model", "device_version":
				value = cell
			default:
				value, err = strconv.ParseFloat(cell, 64)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	return values
}

type question struct {
	UseCase string `json:"use_case"`
	Type    string
	Q       string
	Answer  struct {
		Columns []string
		Types   []uint32
		Rows    [][]*string
	}
}

// asked asks the queries of a use case and compares the answers with TimescaleDB's.
func asked(t *testing.T, conn *pgx4.Conn, useCase string, count int) {
	t.Helper()
	lines := data(t, "answers.timescaledb.jsonl.gz")
	for lines.Scan() {
		var one question
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if one.UseCase != useCase {
			continue
		}
		count--
		t.Run(one.Type, func(t *testing.T) { compare(t, conn, one) })
	}
	if count != 0 {
		t.Fatal("more or less queries than there were: ", -count)
	}
}

func compare(t *testing.T, conn *pgx4.Conn, one question) {
	rows, err := conn.Query(context.Background(), one.Q)
	if err != nil {
		t.Fatalf("%s: %v", one.Q, err)
	}
	defer rows.Close()
	var found, wanted [][]string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		var row []string
		for nth, value := range values {
			row = append(row, shown(t, value, one.Answer.Types[nth]))
		}
		found = append(found, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", one.Q, err)
	}
	// They are known once the answer has begun.
	fields := rows.FieldDescriptions()
	if len(fields) != len(one.Answer.Columns) {
		t.Fatalf("%s: %d columns, not %v", one.Q, len(fields), one.Answer.Columns)
	}
	for nth, field := range fields {
		if string(field.Name) != one.Answer.Columns[nth] || field.DataTypeOID != one.Answer.Types[nth] {
			t.Errorf("column %s of type %d, not %s of %d", field.Name, field.DataTypeOID, one.Answer.Columns[nth], one.Answer.Types[nth])
		}
	}
	for _, cells := range one.Answer.Rows {
		var row []string
		for _, cell := range cells {
			if cell == nil {
				row = append(row, "NULL")
			} else {
				row = append(row, *cell)
			}
		}
		wanted = append(wanted, row)
	}
	// Only an ORDER BY at the end, at the outermost level, orders the answer, and none of these has ties that matter.
	if !isOrdered(one.Q) {
		sorted(found)
		sorted(wanted)
	}
	if len(found) != len(wanted) {
		t.Fatalf("%s: %d rows, not %d: %v, not %v", one.Q, len(found), len(wanted), found, wanted)
	}
	for nth := range found {
		for column := range found[nth] {
			if !same(found[nth][column], wanted[nth][column]) {
				t.Fatalf("%s: row %d is %v, not %v", one.Q, nth, found[nth], wanted[nth])
			}
		}
	}
}

func isOrdered(q string) bool {
	at := strings.LastIndex(strings.ToUpper(q), "ORDER BY")
	return at >= 0 && !strings.Contains(q[at:], ")") && !strings.Contains(q, "daily_activity")
}

func sorted(rows [][]string) {
	sort.Slice(rows, func(a, b int) bool {
		for nth := range rows[a] {
			if !same(rows[a][nth], rows[b][nth]) {
				return rows[a][nth] < rows[b][nth]
			}
		}
		return false
	})
}

// same compares texts, and numbers to twelve digits.
func same(one, other string) bool {
	if one == other {
		return true
	}
	a, errA := strconv.ParseFloat(one, 64)
	b, errB := strconv.ParseFloat(other, 64)
	return errA == nil && errB == nil && math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b))
}

// shown writes a value as psycopg's value is as text.
func shown(t *testing.T, value interface{}, kind uint32) string {
	t.Helper()
	switch value := value.(type) {
	case nil:
		return "NULL"
	case time.Time:
		return value.UTC().Format("2006-01-02 15:04:05.999999+00:00")
	case *pgtype.Numeric:
		return shown(t, *value, kind)
	case pgtype.Numeric:
		var float float64
		if err := value.AssignTo(&float); err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(float, 'g', 17, 64)
	case pgtype.Interval:
		all := time.Duration(value.Microseconds) * time.Microsecond
		text := fmt.Sprintf("%d:%02d:%02d", int(all.Hours()), int(all.Minutes())%60, int(all.Seconds())%60)
		if rest := value.Microseconds % 1000000; rest != 0 {
			text += fmt.Sprintf(".%06d", rest)
		}
		if value.Days != 0 || value.Months != 0 {
			t.Fatal("an interval of days: ", value)
		}
		return text
	default:
		return fmt.Sprint(value)
	}
}
