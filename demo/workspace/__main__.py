"""`python -m demo.workspace`: a workspace to point a bot at, with people moved from the keyboard."""

import argparse
import asyncio
import contextlib
import signal
import sys
import threading

from demo.workspace.console import HELP, News, obey
from demo.workspace.server import Workspace


async def run(port: int, rate_limits: bool) -> None:
    """Serves until SIGINT or SIGTERM; the end of the input does not end it."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Workspace(port=port, rate_limits=rate_limits) as workspace:
        _say(f"slack.api_url: {workspace.api_url}")
        _say(f"SLACK_BOT_TOKEN={workspace.bot_token}")
        _say(f"SLACK_APP_TOKEN={workspace.app_token}")
        _say(HELP)
        tasks = [asyncio.create_task(_print_news(workspace)), asyncio.create_task(_read(workspace))]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _print_news(workspace: Workspace) -> None:
    news = News(workspace)
    while True:
        with contextlib.suppress(TimeoutError):
            for part in await workspace.until(news.take, seconds=60):
                _say(part)


async def _read(workspace: Workspace) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # a daemon: a read that never returns must not keep the process alive
    threading.Thread(target=_feed, args=(loop, lines), daemon=True).start()
    while True:
        answer = await obey(workspace, await lines.get())
        if answer:
            _say(answer)


def _feed(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    for line in sys.stdin:
        if line.strip():
            loop.call_soon_threadsafe(lines.put_nowait, line)


def _say(words: str) -> None:
    print(words, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.workspace", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--no-rate-limits", action="store_true")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.port, not options.no_rate_limits))
    except OSError as error:
        raise SystemExit(f"The workspace cannot listen on port {options.port}: {error.strerror}.") from error


if __name__ == "__main__":
    main()
