"""What happens to tests that need a C compiler where there is none."""

import os
import shutil

import pytest

NO_COMPILER = (
    "NO C COMPILER: the fake NVML library cannot be built, so the NVML collector is NOT TESTED here; install gcc"
)


def require_compiler() -> None:
    """Skips the test with a reason that nobody overlooks; in CI it fails."""
    if shutil.which("cc"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(NO_COMPILER, pytrace=False)
    pytest.skip(NO_COMPILER)
