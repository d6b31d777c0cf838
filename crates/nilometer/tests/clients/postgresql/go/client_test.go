// pgx, which describes statements and sends binary values.
package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	for _, text := range []string{
		"DROP TABLE IF EXISTS g",
		"CREATE TABLE g (time timestamptz, v double precision, n bigint, name text)",
	} {
		if _, err := conn.Exec(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

func TestValues(t *testing.T) {
	conn, ctx := connect(t), context.Background()
	at := time.Date(2024, 5, 1, 0, 0, 0, 1000, time.UTC)
	tag, err := conn.Exec(ctx, "INSERT INTO g (time, v, n, name) VALUES ($1, $2, $3, $4)", at, 1.5, int64(7), nil)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	var read time.Time
	var v float64
	var n int64
	var name *string
	row := conn.QueryRow(ctx, "SELECT time, v, n, name FROM g WHERE time = $1 AND v > $2", at, 1.0)
	if err := row.Scan(&read, &v, &n, &name); err != nil {
		t.Fatal(err)
	}
	if !read.Equal(at) || v != 1.5 || n != 7 || name != nil {
		t.Fatal(read, v, n, name)
	}
}

func TestCopy(t *testing.T) {
	conn, ctx := connect(t), context.Background()
	rows := [][]any{}
	for number := range 1000 {
		rows = append(rows, []any{time.Unix(int64(number), 0), float64(number) / 2, int64(number), "a"})
	}
	count, err := conn.CopyFrom(ctx, pgx.Identifier{"g"}, []string{"time", "v", "n", "name"}, pgx.CopyFromRows(rows))
	if err != nil || count != 1000 {
		t.Fatal(count, err)
	}
	var sum float64
	if err := conn.QueryRow(ctx, "SELECT sum(v) FROM g").Scan(&sum); err != nil || sum != 249750 {
		t.Fatal(sum, err)
	}
}

func TestBatchAndErrors(t *testing.T) {
	conn, ctx := connect(t), context.Background()
	batch := &pgx.Batch{}
	for number := range 10 {
		batch.Queue("SELECT $1::bigint", int64(number))
	}
	answers := conn.SendBatch(ctx, batch)
	for number := range 10 {
		var n int64
		if err := answers.QueryRow().Scan(&n); err != nil || n != int64(number) {
			t.Fatal(n, err)
		}
	}
	if err := answers.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(ctx, "SELECT * FROM nowhere")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "42P01" || refused.Position != 15 {
		t.Fatal(err)
	}
}
