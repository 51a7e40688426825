"""Without a C compiler tests say that they did not run; in CI they fail."""

import pytest

from tests.compiler import NO_COMPILER, require_compiler


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_compiler_is_never_silent(tmp_path, monkeypatch, ci, outcome):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=NO_COMPILER.split(":")[0]):
        require_compiler()


def test_with_a_compiler_nothing_is_skipped(tmp_path, monkeypatch):
    (tmp_path / "cc").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    require_compiler()
