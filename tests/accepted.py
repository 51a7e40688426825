"""What our programs accept: command lines, and names in the environment."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r'"((?:GPU_ONCALL|SLACK|DATABASE|PAGER|HEARTBEAT)_[A-Z_]+)"')


def parses(command: click.Command, arguments: Sequence[str]) -> None:
    """Fails unless every word is a command, an option or a value that is taken. Runs nothing."""
    if not isinstance(command, click.Group):
        command.make_context(command.name, [*arguments])
        return
    below = command.get_command(click.Context(command), arguments[0])
    assert below is not None, f"no such command: {arguments[0]}"
    parses(below, arguments[1:])


def environment_names() -> set[str]:
    """The variables that the source names, each also with _FILE."""
    files = [path for package in ("agent", "bot", "wire") for path in (ROOT / package).rglob("*.py")]
    names = {name for file in files for name in _NAME.findall(file.read_text())}
    return names | {f"{name}_FILE" for name in names}
