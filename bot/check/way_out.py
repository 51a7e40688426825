"""The second path: whether Apprise understands its addresses."""

from collections.abc import Sequence

from bot.check.finding import Finding, ok, problem
from bot.fallback import Fallback, understood

WHY = "while Slack is away, this is the only way to people"


async def about_fallback(urls: Sequence[str], post: bool) -> list[Finding]:
    findings = [_one(number, url) for number, url in enumerate(urls, 1)]
    if post and urls:
        findings.append(await _tried(urls))
    return findings


def _one(number: int, url: str) -> Finding:
    topic = f"fallback {number}"
    if understood(url):
        return ok(topic, f"{url.partition('://')[0]}:// is understood")
    return problem(topic, "Apprise does not understand this address", WHY, "compare it with Apprise's list of services")


async def _tried(urls: Sequence[str]) -> Finding:
    if await Fallback(urls).tell("gpu-oncall check", "A test by gpu-oncall check --post: this address works."):
        return ok("fallback", "a test message was taken")
    return problem("fallback", "no address took a test message", WHY, "see the messages above, and the service itself")
