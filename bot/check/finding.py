"""One line of `gpu-oncall check`: what was found, why it matters, what to do."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Level(StrEnum):
    OK = "ok"
    ADVICE = "advice"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """`why` and `todo` are "" where all is well."""

    level: Level
    topic: str
    text: str
    why: str = ""
    todo: str = ""


def ok(topic: str, text: str) -> Finding:
    return Finding(Level.OK, topic, text)


def problem(topic: str, text: str, why: str, todo: str) -> Finding:
    return Finding(Level.PROBLEM, topic, text, why, todo)


def advice(topic: str, text: str, why: str, todo: str) -> Finding:
    return Finding(Level.ADVICE, topic, text, why, todo)


def as_json(findings: Sequence[Finding]) -> str:
    return msgspec.json.format(msgspec.json.encode(findings), indent=2).decode()


def as_text(findings: Sequence[Finding]) -> str:
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.level.upper():8} {finding.topic}: {finding.text}")
        if finding.why:
            lines.append(f"{'':8} why: {finding.why}")
        if finding.todo:
            lines.append(f"{'':8} do:  {finding.todo}")
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    lines.append(f"In the way: {problems}." if problems else "Nothing stands in the way.")
    return "\n".join(lines)
