#!/usr/bin/env python3
"""How far past its time limit a statement ends.

Starts a server for each limit (`--query-ms-max`), writes a million rows, runs statements that would each take longer than
the limit, and prints how many milliseconds after the limit each of them was answered, the worst last. A statement that is
done within the limit is said to be so and does not count. Sorts, joins, aggregates, windows, set operations, lists,
recursion and text: what one call of the query engine does without looking at the clock is what overruns.

Usage: overrun.py PROGRAM [LIMIT_MS...]
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROWS = 1_000_000
G = "generate_series(1, 100000000) AS g(i)"
STATEMENTS = {
    "sort": f"SELECT i FROM {G} ORDER BY i % 1000003, i LIMIT 1 OFFSET 5000000",
    "sort text": f"SELECT i FROM {G} ORDER BY reverse(i::text) OFFSET 900000 LIMIT 1",
    "group": f"SELECT count(*) FROM (SELECT i % 5000000 k, count(*), max(i) FROM {G} GROUP BY 1) t",
    "group text": f"SELECT count(*) FROM (SELECT reverse(i::text) k, count(*) FROM {G} GROUP BY 1) t",
    "distinct": f"SELECT count(DISTINCT i) FROM {G}",
    "cross join": f"SELECT count(*) FROM m a, m b WHERE a.v + b.v > 1e9",
    "equal join": f"SELECT count(*) FROM {G} JOIN (SELECT i AS j FROM {G}) h ON i = j",
    "one key join": "SELECT count(*) FROM m a JOIN m b ON a.h = b.h WHERE a.v < b.v",
    "outer join": f"SELECT count(*) FROM m a FULL JOIN m b ON a.h = b.h AND a.v > b.v + 1e9",
    "window": f"SELECT max(s) FROM (SELECT sum(i) OVER (ORDER BY i % 1000 ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) s FROM {G}) t",
    "window list": "SELECT max(array_length(l, 1)) FROM (SELECT array_agg(v) OVER (ORDER BY time, h ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) l FROM m) t",
    "window median": "SELECT max(p) FROM (SELECT median(v) OVER (ORDER BY time, h ROWS BETWEEN 5000 PRECEDING AND CURRENT ROW) p FROM m) t",
    "rank": f"SELECT max(r) FROM (SELECT rank() OVER (ORDER BY i % 7919) r FROM {G}) t",
    "list": f"SELECT array_length(array_agg(i ORDER BY i % 77), 1) FROM {G}",
    "string": f"SELECT length(string_agg(i::text, ',')) FROM {G}",
    "unnest": "SELECT count(*) FROM (SELECT unnest(range(0, 100000)) FROM generate_series(1, 81920)) t",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "except": f"SELECT count(*) FROM (SELECT i FROM {G} EXCEPT SELECT i + 1 FROM {G}) t",
    "intersect all": f"SELECT count(*) FROM (SELECT i % 100 FROM {G} INTERSECT ALL SELECT i % 70 FROM {G}) t",
    "union": f"SELECT count(*) FROM (SELECT i FROM {G} UNION SELECT -i FROM {G}) t",
    "percentile": f"SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY i) FROM {G}",
    "regexp": f"SELECT count(*) FROM {G} WHERE regexp_like(repeat(i::text, 50), '(1+2*)*3$')",
    "repeat": f"SELECT max(length(repeat(i::text, 5000))) FROM {G}",
    "correlated": "SELECT count(*) FROM m a WHERE v > (SELECT avg(v) FROM m b WHERE b.h = a.h AND b.v < 1e9 + a.v - a.v)",
    "rows": "SELECT * FROM m a, m b",
    "explain analyze": f"EXPLAIN ANALYZE SELECT count(*) FROM {G} WHERE i % 3 = 1",
    "update": "UPDATE m SET v = v + (SELECT count(*) FROM m b WHERE b.v <> 7)",
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def post(base, path, body, content_type="text/plain"):
    request = urllib.request.Request(base + path, body, {"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except http.client.IncompleteRead as cut:
        # Rows were on their way: the status was sent, and the answer is broken off instead.
        return 504, b"broken off after %d bytes" % len(cut.partial)


def write_rows(base):
    for first in range(0, ROWS, 100_000):
        lines = "\n".join(
            f"m,h=h{i % 100} v={i % 9973}.5,n={i}i {1714521600000000000 + i // 100 * 1_000_000_000}"
            for i in range(first, first + 100_000)
        )
        status, text = post(base, "/api/v3/write_lp?db=d", lines.encode())
        assert status < 300, text


def run(program, limit):
    past = []
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        command = [program, "serve", "--data", folder, "--http-bind", f"127.0.0.1:{port}", "--query-ms-max", str(limit)]
        with open(os.path.join(folder, "..", f"overrun-{port}.log"), "w") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                wait(base)
                write_rows(base)
                for name, statement in STATEMENTS.items():
                    body = json.dumps({"db": "d", "q": statement}).encode()
                    begun = time.monotonic()
                    status, text = post(base, "/api/v3/query_sql", body, "application/json")
                    took = (time.monotonic() - begun) * 1000
                    said = "time limit" if b"query-ms-max" in text else "done" if status == 200 else text[:90].decode(errors="replace")
                    print(f"{limit:6} ms  {took - limit:8.0f} ms past  {name:16} {said}", flush=True)
                    if took > limit:
                        past.append((took - limit, name))
            finally:
                server.terminate()
                server.wait(60)
        os.remove(log.name)
    return past


def wait(base):
    for _ in range(600):
        try:
            urllib.request.urlopen(base + "/health", timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    limits = [int(limit) for limit in sys.argv[2:]] or [200, 1000, 4000]
    for limit in limits:
        past = run(sys.argv[1], limit)
        if past:
            worst, name = max(past)
            print(f"{limit:6} ms: {len(past)} of {len(STATEMENTS)} went past it, the worst by {worst:.0f} ms ({name})")


if __name__ == "__main__":
    main()
