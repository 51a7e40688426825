"""What terminal and running bot say to each other: one line of JSON each way over a Unix socket."""

from pathlib import Path

import msgspec

LONGEST_LINE = 64 * 1024


class Request(msgspec.Struct, frozen=True):
    """`command` is a name of the table of the terminal's commands, `text` what stands after it."""

    command: str
    text: str = ""


class Reply(msgspec.Struct, frozen=True):
    """`understood` False: what was typed is wrong, and `text` says what is right."""

    text: str
    understood: bool = True


encode = msgspec.json.encode
request_of = msgspec.json.Decoder(Request).decode
reply_of = msgspec.json.Decoder(Reply).decode


def socket_path(data_dir: Path) -> Path:
    return data_dir / "bot.sock"
