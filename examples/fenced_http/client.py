"""Writes to the resource of server.py with the token of a lock.

    habemus lock report -- python examples/fenced_http/client.py http://127.0.0.1:8080/ "what to
    write"

`habemus lock` puts the token into HABEMUS_TOKEN.  Leaves with 0 if it was written, and with 1 if
this holder came too late.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

from habemus.fencing import StaleToken, token_from

PATIENCE = 10.0


def put(url: str, content: bytes, token: int) -> None:
    """Raises StaleToken where the resource has accepted a newer one."""
    request = urllib.request.Request(
        url, content, {"Habemus-Token": str(token), "Content-Type": "text/plain"}, method="PUT"
    )
    try:
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except urllib.error.HTTPError as refusal:
        with refusal:
            if refusal.code == 412:
                raise StaleToken(token, token_from(refusal.headers["Habemus-Token"])) from None
            raise


if __name__ == "__main__":
    try:
        put(sys.argv[1], sys.argv[2].encode(), token_from(os.environ.get("HABEMUS_TOKEN")))
    except StaleToken as refusal:
        sys.exit(str(refusal))
