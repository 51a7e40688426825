"""`python -m demo`: the whole product on this machine, with a Slack workspace of its own."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from demo.story import Story, StoryError
from demo.workspace import Workspace


def _say(words: str) -> None:
    print(words, flush=True)


async def _headless() -> int:
    """0 when the story happened as it must, 1 otherwise."""
    with tempfile.TemporaryDirectory(prefix="gpu-oncall-demo-") as folder:
        async with Workspace() as workspace:
            story = Story(Path(folder), workspace, _say)
            try:
                await story.play()
            except StoryError as error:
                _say(f"\nThe story went wrong: {error}")
                return 1
            finally:
                _say(f"\nWhat stands in #gpu-oncall:\n\n{story.transcript()}")
    _say("\nAll of it happened as it must.")
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--headless", action="store_true", help="run the story to its end, print all cards, and stop")
    parser.parse_args()
    sys.exit(asyncio.run(_headless()))


if __name__ == "__main__":
    main()
