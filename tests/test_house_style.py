"""Sizes and names that CONTRIBUTING.md promises."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for part in ("wire", "agent", "bot", "demo", "bench") for path in (ROOT / part).rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "common", "core", "manager", "handler"}
LONGEST_FILE = 400
LONGEST_FUNCTION = 60


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_says_what_it_is_and_fits_on_a_few_screens(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert path.stem not in VAGUE
    assert len(text.splitlines()) <= LONGEST_FILE
    assert ast.get_docstring(tree) or not text.strip(), "begin with a docstring that says in one line what this is"
    if "migrations" in path.parts:  # a list of columns, written once
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, f"{node.name} is too long"
