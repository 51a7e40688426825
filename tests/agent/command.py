"""Runs a command of the agent in this process and gives what it printed."""

from pathlib import Path

import msgspec
from click.testing import CliRunner, Result

from agent.__main__ import main
from agent.reading import Sweep


def run_command(*arguments: str) -> Result:
    """A traceback is a failure of the test, not an exit status."""
    result = CliRunner().invoke(main, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


CLEAR_BUS = "{insecure: true, servers: ['nats://127.0.0.1:4222']}"


def write_config(folder: Path, **agent: str) -> Path:
    """A config whose state is in the folder; the values are YAML."""
    values = {"node": "gpu-01", "state_dir": str(folder / "state"), "bus": CLEAR_BUS, **agent}
    path = folder / "config.yaml"
    path.write_text("agent:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items()))
    return path


def write_recording(folder: Path, *sweeps: Sweep) -> Path:
    path = folder / "recording.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(sweep) + b"\n" for sweep in sweeps))
    return path
