"""Addresses in the config: whatever holds a password is a secret, and only its name stands there."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from wire.configfile import Problem

_SECRET_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,60}", re.ASCII)


def wrong_address(key: str, wanted: str, address: str) -> Iterator[Problem]:
    """An address, or the name of a secret that holds one."""
    is_url = "://" in address
    if is_url and "@" in urlsplit(address).netloc:
        yield Problem(
            key,
            "has a user or a password in an address: put the whole address into a secret, and the secret's name here",
        )
    elif not is_url and not _SECRET_NAME.fullmatch(address):
        yield Problem(key, f"wants {wanted}, or a secret's name like PAGER_URL")


def wrong_database(database: str | None) -> Iterator[Problem]:
    """A URL, or the name of a secret that holds one; None is SQLite in the data_dir."""
    is_url = database is not None and "://" in database
    if database is None or (not is_url and _SECRET_NAME.fullmatch(database)):
        return
    if not database.startswith(("sqlite:///", "postgresql://", "postgres://")):
        yield Problem(
            "database",
            "wants null, sqlite:///FILE, postgresql://USER@HOST/NAME, or the name of a secret like DATABASE_URL",
        )
    elif urlsplit(database).password is not None or "password=" in urlsplit(database).query:
        yield Problem(
            "database", "has a password in it: put the whole URL into a secret, and the name of the secret here"
        )
