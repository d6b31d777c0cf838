"""psql over TLS: what each `sslmode` asks of the server's certificate."""

import os
import subprocess
import unittest


def psql(host, **settings):
    settings = {"PGSSL" + name.upper(): value for name, value in settings.items()}
    environment = {**os.environ, "PGHOST": host, "PGHOSTADDR": os.environ["PGHOST"], **settings}
    command = ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "--command", "SELECT 1", "--command", "\\conninfo"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.stdout


class Tls(unittest.TestCase):
    def test_a_connection_is_encrypted_where_it_is_required(self):
        said = psql("localhost", mode="require")
        self.assertTrue(said.startswith("1\n"), said)
        self.assertIn("protocol: TLSv1.3", said)

    def test_the_certificate_is_the_server_s(self):
        said = psql("localhost", mode="verify-full", rootcert=os.environ["CERTIFICATE"])
        self.assertTrue(said.startswith("1\n"), said)

    def test_a_certificate_for_another_name_is_refused(self):
        said = psql("elsewhere.example", mode="verify-full", rootcert=os.environ["CERTIFICATE"])
        self.assertIn("does not match host name", said)

    def test_a_certificate_that_nobody_knows_is_refused(self):
        said = psql("localhost", mode="verify-ca", rootcert="/dev/null")
        self.assertIn("certificate", said)
        self.assertFalse(said.startswith("1\n"), said)


if __name__ == "__main__":
    unittest.main()
