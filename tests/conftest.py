"""What holds for every test: how hard properties are searched."""

import os

import hypothesis

hypothesis.settings.register_profile("test", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=20_000)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "test")
