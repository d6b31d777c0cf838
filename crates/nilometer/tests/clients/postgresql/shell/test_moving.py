"""Moving across: a dump that pg_dump 15 wrote of a PostgreSQL (dump.sql, data only) into tables that the guide says to make."""

import os
import re
import unittest

from test_psql import HERE, psql

TABLES = """DROP TABLE IF EXISTS cpu; DROP TABLE IF EXISTS tags;
CREATE TABLE tags (id SERIAL PRIMARY KEY, hostname text NOT NULL, region text);
CREATE UNIQUE INDEX uniq1 ON public.tags USING btree (hostname, region);
CREATE TABLE public.cpu (
    "time" timestamp with time zone NOT NULL,
    tags_id integer,
    usage double precision,
    note text,
    extra jsonb,
    n numeric(10,2) DEFAULT 0
);
CREATE INDEX cpu_tags_id_time_idx ON public.cpu USING btree (tags_id, "time" DESC);
CREATE INDEX cpu_time_idx ON public.cpu USING btree ("time" DESC);
"""


class Moving(unittest.TestCase):
    def test_a_dump_of_the_rows_is_loaded_and_written_the_same(self):
        if "NILOMETER_URL" not in os.environ:
            # PostgreSQL has no hypertables.
            return
        made = psql("--quiet", "--set", "ON_ERROR_STOP=1", text=TABLES + "SELECT create_hypertable('cpu', 'time');")
        self.assertIn("(1 row)", made)
        dump = os.path.join(HERE, "dump.sql")
        loaded = psql("--quiet", "--set", "ON_ERROR_STOP=1", "--file", dump)
        self.assertNotIn("ERROR", loaded)
        with open(dump, encoding="utf-8") as file:
            wanted = re.findall(r"^COPY public\.(\w+) .*? FROM stdin;\n(.*?)^\\\.$", file.read(), re.S | re.M)
        self.assertEqual([name for name, _ in wanted], ["cpu", "tags"])
        for name, rows in wanted:
            key = "time" if name == "cpu" else "id"
            self.assertEqual(psql("--command", f"\\copy (SELECT * FROM {name} ORDER BY {key}) TO STDOUT"), rows)
        # The dump says setval(11): that number was given before its row was deleted there.
        self.assertEqual(psql("--quiet", "--tuples-only", "--no-align", "--command", "INSERT INTO tags(hostname) VALUES ('new') RETURNING id"), "12\n")
