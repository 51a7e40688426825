"""The import rules catch what they are there for."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("wire", "agent", "bot", "demo")


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("bot/judge/verdict.py", "import time", "What decides does no IO, reads no clock and does not log BROKEN"),
        ("bot/clock.py", "import agent.clock", "Agent and bot share only wire BROKEN"),
        ("bot/incident.py", "import bot.store", "The bot's layers BROKEN"),
        ("agent/reading.py", "import agent.observe", "The agent's layers BROKEN"),
        ("bot/newcomer.py", '"""New."""', "- bot.newcomer"),
    ],
)
def test_a_broken_rule_is_told(tmp_path, file, line, contract):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    with (tmp_path / file).open("a") as source:
        source.write(f"\n{line}\n")
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(lint, cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert contract in done.stdout
