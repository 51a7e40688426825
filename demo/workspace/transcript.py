"""Messages and views as plain text for the terminal. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from demo.workspace.state import Channel, Ephemeral, Json, Message, View

INDENT = "  "
REPLY = "  > "
ENTITY = re.compile(r"<([^<>]+)>")


def channel_transcript(channel: Channel, names: Mapping[str, str]) -> str:
    """Every message with its thread below it; `names` maps ids of people and groups to what is shown."""
    roots = [message for message in channel.shown if not message.is_reply]
    parts = [message_transcript(message, channel.replies(message), names) for message in roots]
    return "\n\n".join([f"#{channel.name}", *parts])


def message_transcript(message: Message, replies: Sequence[Message], names: Mapping[str, str]) -> str:
    lines = [_head(message, names), *_indented(_body(message, names), INDENT)]
    for reply in replies:
        lines += _indented([_head(reply, names), *_indented(_body(reply, names), INDENT)], REPLY)
    return "\n".join(lines)


def ephemeral_transcript(ephemeral: Ephemeral, names: Mapping[str, str]) -> str:
    head = f"only for {names.get(ephemeral.user_id, ephemeral.user_id)}:"
    return "\n".join([head, *_indented(_body(ephemeral, names), INDENT)])


def view_transcript(view: View, names: Mapping[str, str]) -> str:
    """A modal with its title and buttons, or a home."""
    body = view.body
    head = f"modal: {view.title}" if view.kind == "modal" else "App Home"
    lines = [head, *_indented(blocks_lines(view.blocks, names), INDENT)]
    buttons = [f"[{plain(body[name], names)}]" for name in ("close", "submit") if body.get(name)]
    return "\n".join([*lines, *([INDENT + " ".join(buttons)] if buttons else [])])


def blocks_lines(blocks: Iterable[Json], names: Mapping[str, str]) -> list[str]:
    """One or more lines per block, in the order of the message."""
    return [line for block in blocks for line in _block_lines(block, names)]


def plain(text: Any, names: Mapping[str, str]) -> str:
    """A text object or string as people read it: mentions as names, dates as their fallback."""
    if isinstance(text, dict):
        if text.get("type") == "plain_text":
            return str(text.get("text", ""))
        text = text.get("text", "")
    shown = ENTITY.sub(lambda found: _entity(found[1], names), str(text))
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _entity(inside: str, names: Mapping[str, str]) -> str:
    target, _, label = inside.partition("|")
    if target.startswith("!date^"):
        return label
    if target.startswith("!"):
        return names.get(target.removeprefix("!subteam^"), label or "@" + target.removeprefix("!"))
    if target[:1] in "@#":
        return names.get(target[1:], target[:1] + label if label else target)
    return f"{label} ({target})" if label else target


def _head(message: Message, names: Mapping[str, str]) -> str:
    at = f"{message.versions[0].at:%Y-%m-%d %H:%M:%S} UTC"
    times = "once" if message.edits == 1 else f"{message.edits} times"
    edited = f" (edited {times})" if message.edits else ""
    files = "".join(f" [file {file_id}]" for file_id in message.files)
    return f"{at} {names.get(message.user_id, message.user_id)}{edited}{files}"


def _body(message: Message | Ephemeral, names: Mapping[str, str]) -> list[str]:
    """The blocks, and below them the first line of what phones and screen readers get."""
    text = plain(message.text, names).splitlines()
    if not message.blocks or not text:
        return text or blocks_lines(message.blocks, names)
    more = f" (+ {len(text) - 1} lines)" if len(text) > 1 else ""
    return [*blocks_lines(message.blocks, names), f"text: {text[0]}{more}"]


def _indented(lines: Iterable[str], by: str) -> list[str]:
    return [by + line if line else line for line in lines]


def _block_lines(block: Json, names: Mapping[str, str]) -> list[str]:
    kind = str(block.get("type"))
    return BLOCKS.get(kind, _unknown)(block, names)


def _unknown(block: Json, names: Mapping[str, str]) -> list[str]:
    return [f"({block.get('type')} block)"]


def _header(block: Json, names: Mapping[str, str]) -> list[str]:
    return [f"## {plain(block['text'], names)}"]


def _divider(block: Json, names: Mapping[str, str]) -> list[str]:
    return ["-" * 40]


def _section(block: Json, names: Mapping[str, str]) -> list[str]:
    lines = plain(block["text"], names).splitlines() if block.get("text") else []
    lines += [f"| {' '.join(plain(field, names).split())}" for field in block.get("fields") or []]
    if block.get("accessory"):
        lines.append(_element(block["accessory"], names))
    return lines


def _context(block: Json, names: Mapping[str, str]) -> list[str]:
    parts = [_element(part, names) if part["type"] == "image" else plain(part, names) for part in block["elements"]]
    return [f"({' · '.join(parts)})"]


def _actions(block: Json, names: Mapping[str, str]) -> list[str]:
    return [" ".join(_element(element, names) for element in block["elements"])]


def _input(block: Json, names: Mapping[str, str]) -> list[str]:
    optional = " (optional)" if block.get("optional") else ""
    hint = [f"({plain(block['hint'], names)})"] if block.get("hint") else []
    return [f"{plain(block['label'], names)}{optional}: {_element(block['element'], names)}", *hint]


def _markdown(block: Json, names: Mapping[str, str]) -> list[str]:
    return str(block["text"]).splitlines()


def _alert(block: Json, names: Mapping[str, str]) -> list[str]:
    return [f"{block.get('level', 'default')}: {plain(block['text'], names)}"]


def _image(block: Json, names: Mapping[str, str]) -> list[str]:
    title = f"{plain(block['title'], names)}: " if block.get("title") else ""
    return [f"[image: {title}{block['alt_text']}]"]


def _rich_text(block: Json, names: Mapping[str, str]) -> list[str]:
    return [line for element in block["elements"] for line in _rich_lines(element, names)]


def _rich_lines(element: Json, names: Mapping[str, str]) -> list[str]:
    if element["type"] == "rich_text_list":
        marks = ("{}. " if element["style"] == "ordered" else "- ",) * len(element["elements"])
        return [
            INDENT * element.get("indent", 0) + mark.format(number) + _rich_parts(item, names)
            for number, (mark, item) in enumerate(zip(marks, element["elements"], strict=True), 1)
        ]
    mark = {"rich_text_quote": "> ", "rich_text_preformatted": "    "}.get(element["type"], "")
    return [mark + line for line in _rich_parts(element, names).splitlines()]


def _rich_parts(element: Json, names: Mapping[str, str]) -> str:
    return "".join(_rich_part(part, names) for part in element["elements"])


def _rich_part(part: Json, names: Mapping[str, str]) -> str:
    for field in ("user_id", "usergroup_id", "channel_id"):
        if field in part:
            return names.get(part[field], part[field])
    if part["type"] == "link":
        return f"{part['text']} ({part['url']})" if part.get("text") else str(part["url"])
    return str(part.get("text") or part.get("fallback") or part.get("range") or f":{part.get('name', '')}:")


def _table(block: Json, names: Mapping[str, str]) -> list[str]:
    """Columns padded to their widest cell."""
    rows = [[_cell(cell, names) for cell in row] for row in block["rows"]]
    columns = max(map(len, rows))
    widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(columns)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return [*([str(block["caption"])] if block.get("caption") else []), *lines]


def _cell(cell: Json, names: Mapping[str, str]) -> str:
    if cell["type"] == "rich_text":
        return " ".join(_rich_text(cell, names))
    return str(cell.get("text", cell.get("value", "")))


def _chart(block: Json, names: Mapping[str, str]) -> list[str]:
    chart = block["chart"]
    lines = [f"[{chart['type']} chart: {block['title']}]"]
    for one in chart.get("series") or [{"name": "", "data": chart.get("segments", [])}]:
        points = ", ".join(f"{point['label']} {point['value']}" for point in one["data"])
        lines.append(f"{one['name']}: {points}" if one["name"] else points)
    return lines


def _container(block: Json, names: Mapping[str, str]) -> list[str]:
    title = plain(block.get("title") or block.get("subtitle") or "", names)
    return [f"# {title}", *_indented(blocks_lines(block["child_blocks"], names), INDENT)]


def _element(element: Json, names: Mapping[str, str]) -> str:
    kind = element["type"]
    if kind == "button":
        asks = "…" if element.get("confirm") and not plain(element["text"], names).endswith("…") else ""
        return f"[{plain(element['text'], names)}{asks}]"
    if kind == "image":
        return f"[image: {element['alt_text']}]"
    if element.get("options"):
        label = plain(element["placeholder"], names) + ": " if element.get("placeholder") else ""
        return f"[{label}{' / '.join(plain(option['text'], names) for option in element['options'])}]"
    words = element.get("initial_value") or element.get("initial_date") or element.get("initial_time")
    return f"[{words or plain(element.get('placeholder') or kind, names)}]"


BLOCKS: dict[str, Callable[[Json, Mapping[str, str]], list[str]]] = {
    "actions": _actions,
    "alert": _alert,
    "container": _container,
    "context": _context,
    "data_table": _table,
    "data_visualization": _chart,
    "divider": _divider,
    "header": _header,
    "image": _image,
    "input": _input,
    "markdown": _markdown,
    "rich_text": _rich_text,
    "section": _section,
    "table": _table,
}
