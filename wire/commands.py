"""A group of commands: each is imported when it is called, and the help says each in one whole sentence."""

import asyncio
import errno
import importlib
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import click

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
_LONGEST_SENTENCE = 1000  # characters: click would cut it at the end of the line


class Commands(click.Group):
    """`places` are commands that none of the others pays for: their names, with `module:attribute`."""

    def __init__(self, *arguments: Any, places: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = places or {}

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted([*super().list_commands(context), *self._places])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._places:
            return super().get_command(context, name)
        module, _, attribute = self._places[name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def invoke(self, context: click.Context) -> Any:
        """What is printed may go into a file, on a disk that is full."""
        try:
            return super().invoke(context)
        except OSError as error:
            if error.errno != errno.ENOSPC or error.filename is not None or context.parent is not None:
                raise
            todo = "make room there, or write it to another place"
            raise click.ClickException(f"not everything could be written: {error.strerror}: {todo}") from error

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(context, name)) for name in self.list_commands(context)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_LONGEST_SENTENCE)) for name, one in found if one])


async def until_signal(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """The work of a program that runs until it is told to stop: SIGTERM and Ctrl-C set its event."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await work(stop)
