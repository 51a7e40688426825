"""Addresses in config.yaml: where the bus listens, and what it is reached by."""

import ipaddress
from urllib.parse import urlsplit

_SCHEME = "nats"  # nats-py would connect in clear to a server that does not ask for TLS


class BadAddressError(ValueError):
    """The text ends the sentence about the key; it never holds the address where that may hold a password."""


def host_and_port(text: str) -> tuple[str, int]:
    """The parts of `host:port` or `[IPv6]:port`; raises BadAddressError."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadAddressError("wants host:port, for example 127.0.0.1:4222") from error
    if not host or not port or parts.netloc != text or "@" in text:
        raise BadAddressError("wants host:port, for example 127.0.0.1:4222")
    return host, port


def server_host(url: str) -> str:
    """The host of a server's URL; raises BadAddressError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadAddressError("wants a URL such as nats://127.0.0.1:4222") from error
    if parts.scheme != _SCHEME or not host or not port or parts.path.strip("/"):
        raise BadAddressError("wants a URL such as nats://127.0.0.1:4222")
    if "@" in parts.netloc:
        raise BadAddressError("must not hold a user or password: name a key file in bus.credentials")
    return host


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_loopback(host: str) -> None:
    """Raises BadAddressError: without TLS nothing may leave the machine."""
    if not is_loopback(host):
        raise BadAddressError(
            f"{host} is not this machine: without TLS, which is not there yet, only 127.0.0.1 is allowed"
        )


INSECURE_SENTENCE = (
    "must be set to true: traffic on the bus is not encrypted yet, so it stays on this machine (127.0.0.1), "
    "and this line says that you know"
)
