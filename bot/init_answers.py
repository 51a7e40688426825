"""What `gpu-oncall init` is told, and where it goes in the annotated config."""

import json
import re
from collections.abc import Callable, Iterator

import msgspec

from bot.config import Channels
from bot.groups import Approvers
from wire import addresses
from wire.configfile import Problem


class Answers(msgspec.Struct, frozen=True):
    """Nothing said: no channel yet, nobody may approve, and the bot starts its own bus.

    `servers` are those of a bus that runs already. `language` None: the default.
    """

    channel: str | None = None
    approvers: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    language: str | None = None


NOTHING = Answers()
Check = Callable[[str], str | None]


def wrong_channel(channel: str) -> str | None:
    """What is wrong with it, as the config would say it; None for nothing."""
    return _first(Channels(default=channel).problems())


def wrong_approver(user: str) -> str | None:
    """A Slack user's id, or `host:<user>`."""
    if user.startswith("host:"):
        return None if user.removeprefix("host:") else "wants a user's name after host:"
    return _first(Approvers(users=[user]).problems())


def wrong_server(url: str) -> str | None:
    try:
        addresses.server_address(url, False)
    except (addresses.NotSaidError, addresses.BadAddressError) as error:
        return str(error)
    return None


def _first(problems: Iterator[Problem]) -> str | None:
    return next((problem.sentence for problem in problems), None)


def filled_in(text: str, answers: Answers) -> str:
    """The annotated config with the answers in it; its comments stay."""
    if answers.channel is not None:
        text = _set(text, "      #default: ", f"      default: {answers.channel}")
    if answers.language is not None:
        text = _set(text, "    language: ", f"    language: {answers.language}")
    if answers.servers:
        text = _with_servers(text, answers.servers)
    return _with_approvers(text, answers.approvers) if answers.approvers else text


def _with_servers(text: str, servers: tuple[str, ...]) -> str:
    """In both sections; our own server is commented out."""
    shown = _list(servers)
    begin, end = text.index("    embedded:\n"), text.index("    # Servers that run already")
    block = re.sub(r"^( +)(?=[^#\s])", r"\1#", text[begin:end], flags=re.MULTILINE)
    text = text[:begin] + block + text[end:]
    text = _set(text, "    #servers: ", f"    servers: {shown}")
    return _set(text, "    servers: [tls://127", f"    servers: {shown}")


def _with_approvers(text: str, approvers: tuple[str, ...]) -> str:
    """One group for all nodes; those who may approve are also called."""
    users = tuple(one for one in approvers if not one.startswith("host:"))
    hosts = tuple(one.removeprefix("host:") for one in approvers if one.startswith("host:"))
    begin, end = text.index("  #groups:\n"), text.index("  # Planned work")
    block = text[begin:end]
    for key in ("groups:", "- name: default", 'nodes: ["*"]', "approvers:"):
        block = block.replace(f"#{key}", key, 1)
    if users:
        block = _set(block, "      #on_call: ", f"      on_call: {_list(users)}")
        block = _set(block, "        #users: ", f"        users: {_list(users)}")
    if hosts:
        block = _set(block, "        #hosts: ", f"        hosts: {_list(hosts)}")
    return text[:begin] + block + text[end:]


def _set(text: str, begins: str, line: str) -> str:
    """Replaces the first line that begins so."""
    return re.sub(rf"^{re.escape(begins)}.*$", lambda _: line, text, count=1, flags=re.MULTILINE)


def _list(values: tuple[str, ...]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
