"""`make demo` for people: the fleet runs until Ctrl-C, and who sits at the keyboard is everybody in the workspace."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable

from demo.fleet import BUSY, IDLE, NODES, Fleet
from demo.runner import Runner, State
from demo.workspace import Workspace
from demo.workspace.console import HELP, News, obey

WELCOME = f"""A bot, its broker and three GPU nodes run on this machine, with windows of 3 s instead of 5 min.
{BUSY} trains, on {NODES[1]} the runner chat holds a GPU at 0 % and 0 MiB, {IDLE} is really idle: wait for its card.

You are everybody in the Slack workspace. Try, one after the other:
  alice press Acknowledge
  bob /gpu-why {NODES[1]} 0
  bob /gpu-candidates
  job {IDLE} start              somebody starts a job, and the card closes
  job {BUSY} end                a job ends; three windows later another card comes
  runner hang                   chat stops working while its API answers: a card in half a minute
  bob /gpu-why {NODES[1]} chat
  runner work                   it works again, and the card says so

{HELP}
Ctrl-C ends it.
"""


async def keyboard(fleet: Fleet, workspace: Workspace, runner: Runner, tell: Callable[[str], None]) -> None:
    """Until it is cancelled; the end of the input does not end it."""
    async with fleet.running():
        tell(WELCOME)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_news(workspace, tell))
            tasks.create_task(_typed(fleet, workspace, runner, tell))


async def _news(workspace: Workspace, tell: Callable[[str], None]) -> None:
    news = News(workspace)
    while True:
        with contextlib.suppress(TimeoutError):
            for part in await workspace.until(news.take, seconds=60):
                tell(part)


async def _typed(fleet: Fleet, workspace: Workspace, runner: Runner, tell: Callable[[str], None]) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # A daemon thread: a read that never returns must not keep the demo alive.
    threading.Thread(target=_read, args=(loop, lines), daemon=True).start()
    while True:
        line = await lines.get()
        first, *rest = line.split()
        if first == "job":
            tell(_job(fleet, rest))
        elif first == "runner":
            tell(_runner(runner, rest))
        else:
            tell(await obey(workspace, line))


def _job(fleet: Fleet, words: list[str]) -> str:
    deeds = {"start": fleet.start_job, "end": fleet.end_job}
    if len(words) != 2 or words[0] not in NODES or words[1] not in deeds:
        return f"job NODE start|end, with NODE one of {', '.join(NODES)}"
    deeds[words[1]](words[0])
    return "ok"


_RUNNER = {"hang": State.HUNG_AT_ZERO, "work": State.WORKING, "rest": State.RESTING}


def _runner(runner: Runner, words: list[str]) -> str:
    if len(words) != 1 or words[0] not in _RUNNER:
        return f"runner {'|'.join(_RUNNER)}"
    runner.become(_RUNNER[words[0]])
    return "ok"


def _read(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str]") -> None:
    for line in sys.stdin:
        if line.strip():
            loop.call_soon_threadsafe(lines.put_nowait, line)
