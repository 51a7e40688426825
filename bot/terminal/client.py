"""The terminal's side: asks the running bot, or the database where no bot runs."""

import asyncio
from pathlib import Path

from bot.terminal.wire import LONGEST_LINE, Reply, Request, encode, reply_of, socket_path
from wire.configfile import ConfigError

ANSWER_SECONDS = 20.0


async def ask_running(data_dir: Path, request: Request) -> Reply | None:
    """The running bot's answer; None where no bot runs. Raises ConfigError where it cannot be asked."""
    path = socket_path(data_dir)
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except PermissionError as error:
        raise ConfigError(f"{path} may not be opened: run this as the bot's user, or as root") from error
    try:
        writer.write(encode(request) + b"\n")
        async with asyncio.timeout(ANSWER_SECONDS):
            line = await reader.readline()
    except (OSError, TimeoutError) as error:
        raise ConfigError(f"the running bot did not answer within {ANSWER_SECONDS:.0f} s: see its log") from error
    finally:
        writer.close()
    if not line:
        raise ConfigError("the running bot ended while it was asked: try again")
    return reply_of(line)
