"""Secrets from the environment or a file, never shown."""

import pytest

from wire.configfile import ConfigError
from wire.secrets import secret


def test_a_secret_comes_from_its_name_or_from_the_file_that_name_file_names(tmp_path):
    (tmp_path / "token").write_text("hush\n")
    assert secret("TOKEN", {"TOKEN": "hush"}) == "hush"
    assert secret("TOKEN", {"TOKEN_FILE": str(tmp_path / "token")}) == "hush"
    assert secret("TOKEN", {}) is None


def test_what_cannot_be_used_is_told_without_the_value(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    cases = [
        ({"TOKEN": "hush", "TOKEN_FILE": "x"}, "both TOKEN and TOKEN_FILE are set"),
        ({"TOKEN": " "}, "TOKEN is set but empty"),
        ({"TOKEN_FILE": str(tmp_path / "absent")}, "cannot be read: No such file"),
        ({"TOKEN_FILE": str(tmp_path)}, "cannot be read: Is a directory"),
        ({"TOKEN_FILE": str(tmp_path / "empty")}, "is empty"),
        ({"TOKEN_FILE": str(tmp_path / "binary")}, "not UTF-8"),
    ]
    for environ, sentence in cases:
        with pytest.raises(ConfigError, match=sentence) as error:
            secret("TOKEN", environ)
        assert "hush" not in str(error.value)
