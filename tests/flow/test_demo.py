"""The demo's story, as everybody starts it."""

import subprocess
import sys


def test_the_headless_demo_plays_its_story_to_the_end_and_prints_the_cards():
    done = subprocess.run([sys.executable, "-m", "demo", "--headless"], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FREE gpu-03: 1 GPU free" in done.stdout
    assert "OVER gpu-03" in done.stdout
    assert "STALL gpu-02 chat: 0 results for" in done.stdout
    assert "APPROVAL WANTED gpu-02 chat: reboot of the node" in done.stdout
    assert "DONE gpu-02 chat: reboot of the node, proved" in done.stdout
    assert "RECOVERED gpu-02 chat" in done.stdout
    assert "FREE gpu-01" not in done.stdout
    assert "FREE gpu-02" not in done.stdout
