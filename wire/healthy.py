"""Asks a program of ours on this machine how it is: what a container's health check runs."""

import http.client

ASK_SECONDS = 10.0
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def trouble_at(listen: tuple[str, int]) -> str | None:
    """What /healthz complains about, or why it does not answer; None when all is well."""
    host, port = listen
    connection = http.client.HTTPConnection(_EVERY_ADDRESS.get(host, host), port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        words = answer.read(4096).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"nothing answers on {host}:{port}: {error}"
    finally:
        connection.close()
    return None if answer.status == http.client.OK else words or f"/healthz answers {answer.status}"
