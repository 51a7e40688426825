"""What `gpu-oncall db` does: copies of the database, and a database of an earlier time at work again."""

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.advance import Advance
from bot.alone import alone
from bot.config import BotConfig, Mode
from bot.database import brought_to_present, database_url, require_record
from bot.fleet import Fleet
from bot.render import notice
from bot.store import audit, copying, outbox
from bot.store.audit import Entry
from bot.store.copying import NotPresentError
from bot.store.engine import make_engine, why
from bot.store.migrate import NewerDatabaseError, is_ours, is_present, migrate
from bot.store.writer import Store, Transaction
from bot.wanted import advance_settings, channels, rule
from wire.configfile import ConfigError
from wire.files import ROOM, unwritten

# What SQLite says of a disk that is full, or that takes no more for another reason.
_NO_ROOM = ("database or disk is full", "disk I/O error")
_SEE_CONFIG = "; see bot.database and bot.data_dir"
_NAME_ONE = ": name a file that gpu-oncall db backup wrote"


def bring_to_present(config: BotConfig) -> None:
    """Raises ConfigError."""
    with _told("the database"):
        engine = make_engine(database_url(config))
        try:
            brought_to_present(engine, config)
        finally:
            engine.dispose()


def back_up(config: BotConfig, file: Path) -> None:
    """A copy of one moment, while the bot works. Raises ConfigError."""
    require_record(config)
    with _told(str(file)):
        engine = make_engine(database_url(config))
        try:
            copying.back_up(engine, file)
        finally:
            engine.dispose()


def restore(config: BotConfig, file: Path, by: str, *, replaces: bool) -> int:
    """The backup in place of what is there; returns the new fence. Raises ConfigError, with nothing changed."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")

    async def work() -> int:
        async with _alone(config) as store:
            if not replaces and not await store.read(copying.is_empty):
                raise ConfigError("the database is not empty: with --replace, what is in it now is lost")
            return await store.write(lambda transaction: _brought_back(config, store, transaction, file, by))

    with _told(str(file)):
        return asyncio.run(work())


def restored(config: BotConfig, by: str) -> int:
    """The same end for a database that other tools brought back. Raises ConfigError."""

    async def work() -> int:
        async with _alone(config) as store:
            return await store.write(lambda transaction: _ended(config, store, transaction, by))

    with _told("the database"):
        return asyncio.run(work())


def _brought_back(config: BotConfig, store: Store, transaction: Transaction, file: Path, by: str) -> int:
    with _present_copy(file) as present, copying.backup_opened(present) as source:
        copying.bring_back(source, transaction.connection)
    return _ended(config, store, transaction, by)


def _ended(config: BotConfig, store: Store, transaction: Transaction, by: str) -> int:
    """Approvals and orders of the earlier time are void: nobody knows what became of them since."""
    connection, now = transaction.connection, clock.now()
    written_at = copying.last_written(connection)
    advance = Advance(store, Fleet(rule(config)), advance_settings(config))
    advance.remedies.void_unsent(transaction, by)
    audit.append(
        connection, Entry(now, by, "restored", f"the database is as it was at {written_at or 'its beginning'}")
    )
    fence = copying.after_restore(connection, now)
    if written_at is not None and config.mode is not Mode.SHADOW:
        values = {"since": written_at.isoformat()}
        outbox.add_notice(connection, channels(config)[1], notice.RESTORED, values, secrets.token_hex(16), now)
    return fence


@contextlib.contextmanager
def _present_copy(file: Path) -> Iterator[Path]:
    """The backup at this version's schema: itself, or a copy of it, since a backup is never changed."""
    with _told(str(file), _NAME_ONE), copying.backup_opened(file) as connection:
        if not is_ours(connection):
            raise ConfigError(f"{file} is no backup of gpu-oncall{_NAME_ONE}")
        is_newest = is_present(connection)
    if is_newest:
        yield file
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(file, folder))
        engine = make_engine(f"sqlite:///{copy}")
        try:
            migrate(engine)
        finally:
            engine.dispose()
        yield copy


def _alone(config: BotConfig) -> AbstractAsyncContextManager[Store]:
    name = f"gpu-oncall db, PID {os.getpid()}"
    return alone(config, name, "a bot works on this database ({holder}): stop it first")


@contextlib.contextmanager
def _told(what: str, todo: str = _SEE_CONFIG) -> Iterator[None]:
    """`todo` is what helps where the database itself says no."""
    try:
        yield
    except FileExistsError as error:
        raise ConfigError(f"{what} is there already: name a new file") from error
    except OSError as error:
        raise ConfigError(unwritten(error)) from error
    except NotPresentError as error:
        raise ConfigError(f"{what}: {error}: gpu-oncall db migrate") from error
    except NewerDatabaseError as error:
        raise ConfigError(f"{what}: {error}") from error
    except SQLAlchemyError as error:
        said = why(error)
        raise ConfigError(f"{what} cannot be used: {said}{f': {ROOM}' if said.endswith(_NO_ROOM) else todo}") from error
