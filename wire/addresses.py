"""Addresses in config.yaml: where the bus listens, and what it is reached by."""

import ipaddress
from collections.abc import Iterable, Iterator
from urllib.parse import SplitResult, urlsplit

CLEAR = "nats"
ENCRYPTED = "tls"
INSECURE_SENTENCE = (
    "must be set to true for an address with nats://: nothing is encrypted there, so it stays on this machine "
    "(127.0.0.1), and this line says that you know; tls:// needs no such line"
)


class BadAddressError(ValueError):
    """The text ends the sentence about the key; it never holds the address where that may hold a password."""


class NotSaidError(BadAddressError):
    """An address without TLS where the config does not say `insecure: true`."""


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


def server_address(url: str, insecure: bool) -> SplitResult:
    """The parts of a server's URL. Raises BadAddressError where it must not be used, NotSaidError without the word."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadAddressError("wants a URL such as tls://bot-host:4222") from error
    if parts.scheme not in (CLEAR, ENCRYPTED) or not host or not port or parts.path.strip("/"):
        raise BadAddressError("wants a URL such as tls://bot-host:4222")
    if "@" in parts.netloc:
        raise BadAddressError("must not hold a user or password: name a key file in bus.credentials")
    if parts.scheme == CLEAR:
        require_loopback(host)
        if not insecure:
            raise NotSaidError(INSECURE_SENTENCE)
    return parts


def server_problems(urls: Iterable[str], insecure: bool) -> Iterator[tuple[str, str]]:
    """For each server that must not be used the key of the bus to mend, and the sentence about it."""
    for url in urls:
        try:
            server_address(url, insecure)
        except NotSaidError as error:
            yield "insecure", str(error)
        except BadAddressError as error:
            yield "servers", str(error)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    """Whether listening there means listening on every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_host(text: str) -> bool:
    """Whether a certificate may name it: an IP address, or a host's name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        labels = text.rstrip(".").split(".")
        return len(text) <= 253 and all(_is_label(label) for label in labels) and not labels[-1].isdigit()
    return True


def _is_label(text: str) -> bool:
    plain = text.replace("-", "").replace("_", "")
    return 0 < len(text) <= 63 and plain.isascii() and plain.isalnum() and not text.startswith("-")


def require_loopback(host: str) -> None:
    """Raises BadAddressError: without TLS nothing may leave the machine."""
    if not is_loopback(host):
        raise BadAddressError(f"{host} is not this machine: without TLS only 127.0.0.1 is allowed, use tls:// instead")
