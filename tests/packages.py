"""Our packages, built as `python -m build` builds them for a release."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "bot", "wire", "demo")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WHEEL, SDIST = f"gpu_oncall-{VERSION}-py3-none-any.whl", f"gpu_oncall-{VERSION}.tar.gz"
_FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "config.yaml", "Dockerfile")
_FOLDERS = ("docs", "deploy", "requirements", *PACKAGES)


def build(source: Path, out: Path) -> None:
    """From a copy in the new folder `source`, so that nothing is left in the checkout."""
    source.mkdir()
    for name in _FILES:
        shutil.copy(ROOT / name, source / name)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
