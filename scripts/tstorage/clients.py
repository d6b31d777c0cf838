#!/usr/bin/env python3
"""A client of TStorage against our program: one in Python, written from the description of the protocol alone.

Does: start the program without authentication, with it, and with TLS, run the client's tests
(crates/nilometer/tests/clients/tstorage), count them. Does not: have the vendor's own clients, which are not ours to keep.

    python3 scripts/tstorage/clients.py [--program FILE]
"""

import argparse
import importlib.util
import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
INFLUXDB = os.path.join(HERE, "..", "influxdb")
sys.path.insert(0, INFLUXDB)
import servers  # noqa: E402

# Running and counting are the same for the clients of all.
spec = importlib.util.spec_from_file_location("influxdb_clients", os.path.join(INFLUXDB, "clients.py"))
shared = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shared)
TESTS = os.path.join(servers.ROOT, "crates", "nilometer", "tests", "clients", "tstorage")
COMMAND = [sys.executable, "-B", "-m", "unittest", "discover", "-s", TESTS, "-v"]


class Nilometer(servers.Nilometer):
    """Our program with a port for clients of TStorage."""

    def __init__(self, path, scheme, flags):
        self.greeting = "listening on %s://" % scheme
        self.address = None
        super().__init__(path, ["--pg-bind", "off", "--tstorage-bind", "127.0.0.1:0", *flags])

    def greeted(self):
        lines = [line for line in self.text("stdout").split("\n")[:-1] if line.startswith(self.greeting)]
        if not lines:
            return False
        self.address = lines[0][len(self.greeting) :]
        return super().greeted()

    def answers(self):
        # Python's HTTP knows nothing of its certificate.
        return self.url.startswith("https:") or super().answers()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the program under test; without it, the release build")
    program = servers.program(parser.parse_args().program)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = shared.certificate(folder)
        tls = ["--tls-cert", certificate, "--tls-key", key, "--tstorage-client-ca", certificate]
        files = {"TSTORAGE_CERTIFICATE": certificate, "TSTORAGE_KEY": key}
        runs = [
            ("authentication off", "tstorage", [], {}),
            ("authentication on", "tstorage", ["--auth", "--tstorage-role", shared.USER], {}),
            ("TLS with certificates of clients", "tstorage+tls", tls, files),
        ]
        for words, scheme, flags, env in runs:
            with Nilometer(program, scheme, flags) as server:
                if "--auth" in flags:
                    shared.first_administrator(server.url)
                env = {**os.environ, "TSTORAGE_ADDRESS": server.address, **env}
                good, bad, left_out, output = shared.tried("python", COMMAND, TESTS, env)
                bad = max(bad, left_out)
                print("python, %s: %d passed, %d failed" % (words, good, bad))
                if bad:
                    print(output[-20000:])
                sys.stdout.flush()
                passed, failed = passed + good, failed + bad
    print("test result: %s. %d passed; %d failed;" % ("FAILED" if failed else "ok", passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
