"""A key file that others may read, or that holds no key, is refused with what to do."""

import pytest

from wire import nkey
from wire.configfile import ConfigError
from wire.credentials import read_seed


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "node.nkey"
    path.touch(mode=0o600)
    return path


def test_the_seed_is_read_without_the_newline_around_it(key_file):
    seed = nkey.generate_seed()
    key_file.write_text(f"{seed}\n")
    assert read_seed(key_file) == seed


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_may_touch_is_refused_with_the_command_that_helps(key_file, mode):
    key_file.write_text(nkey.generate_seed())
    key_file.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o}.*chmod 600 {key_file}"):
        read_seed(key_file)


def test_a_missing_file_is_named_with_what_makes_one(tmp_path):
    with pytest.raises(ConfigError, match=r"none.nkey cannot be read: No such file.*; gpu-oncall init or .* join"):
        read_seed(tmp_path / "none.nkey")


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b"SUAAAA"])
def test_a_file_without_a_key_is_named_and_its_content_is_not_shown(key_file, content):
    key_file.write_bytes(content)
    with pytest.raises(ConfigError, match="is no key") as told:
        read_seed(key_file)
    assert "SUAAAA" not in str(told.value)
