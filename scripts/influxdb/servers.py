"""Servers for tests: Nilometer and InfluxDB 1 on free loopback ports, with scratch data.

Does: start them, wait until they answer, stop what it started, by its id. Does not: fetch or build them; a server that
does not come up is an error with its last words.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

WAIT_S = 60
GREETING = "listening on "
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def target_dir():
    return subprocess.check_output([os.path.join(ROOT, "scripts", "target-dir.sh")], text=True).strip()


def program(named=None):
    """The program under test: the one that is named, or what the test script builds."""
    path = named or os.path.join(target_dir(), "release", "nilometer")
    if not os.path.isfile(path):
        sys.exit("%s is no program; build it with `make build`, or name one with --program" % path)
    return path


class Server:
    """A process with a folder of its own, both gone at the end of the block."""

    def __init__(self, name):
        self.name = name
        self.folder = tempfile.mkdtemp(prefix="nilometer-proof-")
        self.process = None
        self.url = None

    def log(self, name):
        return os.path.join(self.folder, name)

    def start(self, command, env=None):
        with open(self.log("stdout"), "wb") as out, open(self.log("stderr"), "wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(env or {})}
            )

    def wait(self, is_up):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if is_up():
                return
            time.sleep(0.02)
        words = self.text("stdout")[-1500:] + self.text("stderr")[-1500:]
        self.stop()
        sys.exit("%s does not listen after %d s: %s" % (self.name, WAIT_S, words))

    def text(self, name):
        with open(self.log(name), errors="replace") as file:
            return file.read()

    def answers(self):
        try:
            with urllib.request.urlopen(self.url + "/ping", timeout=5) as response:
                return response.status == 204
        except OSError:
            return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        panicked = self.process is not None and "panicked at" in self.text("stderr")
        words = self.text("stderr")[-3000:] if panicked else ""
        self.stop()
        if panicked:
            sys.exit("%s panicked: %s" % (self.name, words))


class Nilometer(Server):
    """Our program; `flags` are those of `serve`."""

    def __init__(self, path, flags=()):
        super().__init__("nilometer")
        self.start([path, "serve", "--data", os.path.join(self.folder, "data"), "--http-bind", "127.0.0.1:0", *flags])
        self.wait(self.greeted)

    def greeted(self):
        lines = self.text("stdout").split("\n")
        if len(lines) < 2 or not lines[0].startswith(GREETING):
            return False
        self.url = lines[0][len(GREETING) :].strip()
        return self.answers()


class InfluxDb(Server):
    """InfluxDB 1, which reads its settings from variables; everything else is as the program has it."""

    def __init__(self, path, settings=None):
        super().__init__("influxd")
        port = free_port()
        self.url = "http://127.0.0.1:%d" % port
        env = {
            "INFLUXDB_META_DIR": os.path.join(self.folder, "meta"),
            "INFLUXDB_DATA_DIR": os.path.join(self.folder, "data"),
            "INFLUXDB_DATA_WAL_DIR": os.path.join(self.folder, "wal"),
            "INFLUXDB_HTTP_BIND_ADDRESS": "127.0.0.1:%d" % port,
            "INFLUXDB_BIND_ADDRESS": "127.0.0.1:0",
            "INFLUXDB_REPORTING_DISABLED": "true",
            # A database of its own figures would be in every list of databases.
            "INFLUXDB_MONITOR_STORE_ENABLED": "false",
            "INFLUXDB_HTTP_LOG_ENABLED": "false",
            **(settings or {}),
        }
        self.start([path, "run", "-config", "/dev/null"], env)
        self.wait(self.answers)
