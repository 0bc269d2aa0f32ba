"""The image's health check: whether a port of kohort answers an HTTP request. KOHORT_HEALTH says which."""

import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("KOHORT_HEALTH", "http://127.0.0.1:9404/live")

try:
    urllib.request.urlopen(URL, timeout=4).close()
except urllib.error.HTTPError as error:
    sys.exit(f"{URL}: {error.code}" if error.code >= 500 else 0)  # a console refuses who has no token, and lives
except OSError as error:
    sys.exit(f"{URL}: {error}")
