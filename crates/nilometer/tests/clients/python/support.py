"""Where the server is and who asks; the script that starts the server says it in variables."""

import os
import urllib.parse

URL = urllib.parse.urlparse(os.environ["CLIENT_URL"])
# Empty where the server asks nobody.
USER = os.environ["CLIENT_USER"]
PASSWORD = os.environ["CLIENT_PASSWORD"]
READER = "python_reader"


def arguments(**more):
    """What both clients of version 1 are made with."""
    return {"host": URL.hostname, "port": URL.port, "username": USER or None, "password": PASSWORD or None, **more}
