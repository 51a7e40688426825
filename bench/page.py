"""docs/performance.md: one section for each command, which writes it anew and leaves the others alone."""

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_HEAD = """\
# Performance

Every section was written by the command that its first line names. No test asserts a time.
"""
_SECTIONS = ("bench", "scale", "soak")


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """`name` is the make target."""
    assert name in _SECTIONS
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    texts = {one: _section(old, one) for one in _SECTIONS} | {name: text.strip()}
    parts = [f"{_begin(one)}\n{texts[one]}\n{_end(one)}\n" for one in _SECTIONS if texts[one]]
    page.write_text("\n".join([_HEAD, *parts]), encoding="utf-8")


def _section(page: str, name: str) -> str:
    """What is there now, "" for nothing."""
    return page.partition(_begin(name))[2].partition(_end(name))[0].strip()


def _begin(name: str) -> str:
    return f"<!-- make {name} -->"


def _end(name: str) -> str:
    return f"<!-- end of make {name} -->"
