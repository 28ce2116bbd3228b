"""Ends with 0 if the gateway in this container is ready for sessions, else with 1 and one line: its HEALTHCHECK.

It knows the port, and whether TLS is spoken there, from the environment only: `serve --port 9000` needs
DUPLEX_GATEWAY_PORT=9000 instead. Standard library only, no proxy, whatever the environment says.
"""

import os
import ssl
import sys
import urllib.request

TIMEOUT_S = 2

scheme = "https" if os.environ.get("DUPLEX_GATEWAY_SSL_CERTFILE") else "http"
url = f"{scheme}://127.0.0.1:{os.environ.get('DUPLEX_GATEWAY_PORT') or 8765}/health"
unverified = ssl.create_default_context()  # its certificate is for the name by which others reach it
unverified.check_hostname = False
unverified.verify_mode = ssl.CERT_NONE
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified))
try:
    opener.open(url, timeout=TIMEOUT_S).close()
except OSError as error:  # not there, or 503: not ready
    sys.exit(f"{url}: {error}")
