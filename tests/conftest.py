"""What holds for every test: how hard properties are searched, and what happens without a C compiler."""

import os
import shutil

import hypothesis
import pytest

NO_CC = "NO C COMPILER: the fake NVML library cannot be built, so the NVML collector goes untested here; install gcc"

hypothesis.settings.register_profile("test", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=20_000)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "test")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_cc") is None or shutil.which("cc"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(NO_CC, pytrace=False)
    pytest.skip(NO_CC)
