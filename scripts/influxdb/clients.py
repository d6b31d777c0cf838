#!/usr/bin/env python3
"""Real clients of InfluxDB 1 against our program: the shell `influx`, and libraries of Python, Go and Node.

Does: install the versions that the lock files name below the folder of builds, start the program without and with
authentication, run each client's tests (crates/nilometer/tests/clients), count them. Does not: skip what cannot be
installed; that fails.

    python3 scripts/influxdb/clients.py [--program FILE] [--only python,go,node,shell] [--reference]

With --reference the same tests run against InfluxDB itself: what they state is what clients see there.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
import servers  # noqa: E402

TESTS = os.path.join(servers.ROOT, "crates", "nilometer", "tests", "clients")
USER, PASSWORD = "proof", "it's \"secret\" & more"
INSTALL_S = 1200
# Only a hang gets there.
RUN_S = 300


def run(command, timeout, **more):
    more.setdefault("cwd", TESTS)
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **more)


def must(command, **more):
    done = run(command, INSTALL_S, **more)
    if done.returncode:
        raise RuntimeError("%s\n%s" % (" ".join(command), done.stdout[-3000:]))


def installed(cache, locks, install):
    """Runs `install` unless what it made for these lock files is here."""
    digest = hashlib.sha256()
    for lock in locks:
        with open(os.path.join(TESTS, lock), "rb") as file:
            digest.update(file.read())
    stamp = os.path.join(cache, "installed")
    if os.path.exists(stamp) and open(stamp).read() == digest.hexdigest():
        return
    shutil.rmtree(cache, ignore_errors=True)
    os.makedirs(cache)
    install()
    with open(stamp, "w") as file:
        file.write(digest.hexdigest())


class Python:
    """`influxdb` with pandas, and `influxdb-client`."""

    def __init__(self, caches):
        self.cache = os.path.join(caches, "python")
        self.python = os.path.join(self.cache, "bin", "python")

    def install(self):
        def make():
            must([sys.executable, "-m", "venv", self.cache])
            # Everything that is needed is in the list, so nothing is resolved anew.
            must([self.python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "-r", "python/requirements.txt"])
            must([self.python, "-m", "pip", "check"])

        installed(self.cache, ["python/requirements.txt"], make)

    def command(self, is_reference):
        # Version 1.6 has no addresses of version 2.
        which = "test_[!w]*.py" if is_reference else "test_*.py"
        return [self.python, "-B", "-W", "ignore", "-m", "unittest", "discover", "-s", os.path.join(TESTS, "python"), "-p", which, "-v"], TESTS, {}


class Shell:
    """`influx`, as Debian has it."""

    def __init__(self, _caches):
        self.folder = None

    def install(self):
        self.folder = subprocess.check_output([os.path.join(servers.ROOT, "scripts", "influxdb", "reference.sh")], text=True).strip()

    def command(self, _is_reference):
        shell = {"CLIENT_SHELL": os.path.join(self.folder, "influx")}
        return [sys.executable, "-B", "-m", "unittest", "discover", "-s", os.path.join(TESTS, "shell"), "-v"], TESTS, shell


class Go:
    """github.com/influxdata/influxdb1-client/v2."""

    FILES = ["go/go.mod", "go/go.sum", "go/client_test.go"]

    def __init__(self, caches):
        self.cache = os.path.join(caches, "go")
        self.program = os.path.join(self.cache, "client.test")

    def install(self):
        env = {
            **os.environ,
            "GOPATH": os.path.join(self.cache, "path"),
            "GOMODCACHE": os.path.join(self.cache, "modules"),
            # Else what it unpacks could not be removed by `cargo clean`.
            "GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false",
            "GOTOOLCHAIN": "local",
        }

        def make():
            must(["go", "test", "-c", "-o", self.program, "."], cwd=os.path.join(TESTS, "go"), env=env)

        installed(self.cache, self.FILES, make)

    def command(self, _is_reference):
        return [self.program, "-test.v", "-test.count=1"], self.cache, {}


class Node:
    """The package `influx`."""

    def __init__(self, caches):
        self.cache = os.path.join(caches, "node")

    def install(self):
        def make():
            for name in ["package.json", "package-lock.json"]:
                shutil.copy(os.path.join(TESTS, "node", name), self.cache)
            must(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=self.cache)

        installed(self.cache, ["node/package.json", "node/package-lock.json"], make)

    def command(self, _is_reference):
        # Packages are looked for from where the test is.
        shutil.copy(os.path.join(TESTS, "node", "client.test.js"), self.cache)
        return ["node", "--test", "--test-reporter=tap", "client.test.js"], self.cache, {}


CLIENTS = {"shell": Shell, "python": Python, "go": Go, "node": Node}


def counts(name, output):
    """Tests that passed, failed and were skipped, as each language's own tests say it."""
    number = lambda pattern: sum(int(count) for count in re.findall(pattern, output, re.MULTILINE))
    if name in ("python", "shell"):
        failed = number(r"failures=(\d+)") + number(r"errors=(\d+)")
        skipped = number(r"skipped=(\d+)")
        return number(r"^Ran (\d+) tests?") - failed - skipped, failed, skipped
    if name == "go":
        return tuple(len(re.findall(r"^--- %s:" % what, output, re.MULTILINE)) for what in ["PASS", "FAIL", "SKIP"])
    return number(r"^# pass (\d+)"), number(r"^# fail (\d+)") + number(r"^# cancelled (\d+)"), number(r"^# skipped (\d+)")


def certificate(folder):
    """Files of a certificate for localhost, which vouches for itself, and of its key."""
    paths = [os.path.join(folder, name) for name in ["certificate.pem", "key.pem"]]
    must(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", paths[1], "-out", paths[0]]
    )
    return paths


def installed_ones(names, classes, caches):
    """The clients with these names, and how many of them cannot be installed."""
    clients, failed = {}, 0
    for name in names.split(","):
        client = classes[name](caches)
        try:
            client.install()
            clients[name] = client
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print("%s cannot be installed, so its tests FAIL: %s" % (name, error))
            failed += 1
    return clients, failed


def tried(kind, command, folder, env):
    """Runs the tests of a client: how many passed, failed and were skipped, and what they said."""
    try:
        done = run(command, RUN_S, cwd=folder, env=env)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, status = "%s\nit did not end within %d s" % (error.stdout, RUN_S), 1
    good, bad, left_out = counts(kind, output)
    # What cannot even start has no test that failed.
    return good, max(bad, int(status != 0 or good == 0)), left_out, output


def first_administrator(url):
    statement = "CREATE USER %s WITH PASSWORD '%s' WITH ALL PRIVILEGES" % (USER, PASSWORD.replace("'", "\\'"))
    body = urllib.parse.urlencode({"q": statement}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/query", data=body), timeout=60) as response:
        answer = json.load(response)
    if "error" in json.dumps(answer):
        sys.exit("the first administrator could not be made: %s" % answer)


def start(arguments, has_auth):
    if arguments.reference:
        folder = subprocess.check_output([os.path.join(servers.ROOT, "scripts", "influxdb", "reference.sh")], text=True).strip()
        settings = {"INFLUXDB_HTTP_AUTH_ENABLED": "true"} if has_auth else {}
        return servers.InfluxDb(os.path.join(folder, "influxd"), settings)
    return servers.Nilometer(servers.program(arguments.program), ["--auth"] if has_auth else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the program under test; without it, the release build")
    parser.add_argument("--only", default=",".join(CLIENTS))
    parser.add_argument("--reference", action="store_true", help="test the tests: run them against InfluxDB 1.6.7")
    arguments = parser.parse_args()
    passed = skipped = 0
    clients, failed = installed_ones(arguments.only, CLIENTS, os.path.join(servers.target_dir(), "clients"))
    for has_auth in [False, True]:
        with start(arguments, has_auth) as server:
            if has_auth:
                first_administrator(server.url)
            for name, client in clients.items():
                command, folder, env = client.command(arguments.reference)
                who = {"CLIENT_USER": USER, "CLIENT_PASSWORD": PASSWORD} if has_auth else {"CLIENT_USER": "", "CLIENT_PASSWORD": ""}
                good, bad, left_out, output = tried(name, command, folder, {**os.environ, "CLIENT_URL": server.url, **who, **env})
                print("%s, authentication %s: %d passed, %d failed, %d for the other run" % (name, "on" if has_auth else "off", good, bad, left_out))
                if bad:
                    print(output[-20000:])
                sys.stdout.flush()
                passed, failed, skipped = passed + good, failed + bad, skipped + left_out
                # A test may be for the run with authentication only, and then it runs there.
                if has_auth and left_out:
                    print("%s skips tests with authentication on" % name)
                    failed += 1
    print("test result: %s. %d passed; %d failed;" % ("FAILED" if failed else "ok", passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
