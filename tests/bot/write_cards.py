"""`make pictures` begins here: writes tests/cases/cards and docs/cards.md anew from the table of states.

Read the difference before you commit it: every line of it is what people will see.
"""

import json
from pathlib import Path

from tests.bot.build_states import State
from tests.bot.card_states import STATES

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/cases/cards"
PAGE = ROOT / "docs/cards.md"
HEAD = """# Cards

What people see in Slack, one picture for each state of each card, at the width of a phone. The pictures are taken from
the page of `make demo`, which draws the same blocks as Slack; times are shown in the reader's own time zone.

One problem is one card. It is edited when something changes, and each change adds a line to its thread. Buttons that no
longer do anything go away.
"""


# Taken while the demo plays; (name, title, what it is, what the picture shows).
OTHERS = [
    (
        "why", "The answer to /gpu-why",
        "Seen by the one who asked only, like all answers. `/gpu-why node gpu 03:10` asks about last night.",
        "GPU 0 of gpu-02 is in use: a process holds it at 0 % and 0 MiB; with the last windows and what was concluded.",
    ),
    (
        "snooze", "The dialog for a snooze",
        "For this problem, or for everything about the node that is not worse.",
        "A dialog: for how long, 1 hour, 4 hours, until 09:00 or other; only this or the whole node; why.",
    ),
    (
        "home", "App Home",
        "The fleet in one line, what is yours, what is quiet, and how the bot itself is.",
        "App Home: nodes, free GPUs, your open incidents, snoozes, and the bot's health.",
    ),
]  # fmt: skip


def golden(state: State) -> str:
    message = state.draw()
    return json.dumps({"text": message.text, "blocks": message.blocks}, indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    parts = [f"## {one.title}\n\n{one.about}\n\n![{one.alt}](pictures/{one.name}.png)\n" for one in STATES]
    parts += [f"## {title}\n\n{about}\n\n![{alt}](pictures/{name}.png)\n" for name, title, about, alt in OTHERS]
    return "\n".join([HEAD, *parts])


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.json"):
        old.unlink()
    for state in STATES:
        (GOLDEN / f"{state.name}.json").write_text(golden(state), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
