"""Environments of their own, in which a program is measured with what it needs and nothing else."""

import subprocess
import venv
from pathlib import Path

_REQUIREMENTS = Path(__file__).parents[1] / "requirements"


def installed(folder: Path, requirements: str) -> Path | None:
    """The `bin` of a new environment with requirements/NAME.txt; None, and a word why, where that cannot be had."""
    venv.create(folder, with_pip=True)
    command = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    command += ["--only-binary", ":all:", "-r", str(_REQUIREMENTS / f"{requirements}.txt")]
    done = subprocess.run([str(folder / "bin" / "python"), *command], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return folder / "bin"
    print(f"requirements/{requirements}.txt could not be installed:\n{done.stderr[-500:]}")
    return None
