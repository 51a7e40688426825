"""How Slack says no."""

from typing import Any


class SlackError(Exception):
    """Answered as HTTP 200 with `ok: false`. `messages` go to `response_metadata.messages`."""

    def __init__(self, code: str, messages: list[str] | None = None, **fields: Any) -> None:
        super().__init__(code)
        self.code = code
        self.messages = messages or []
        self.fields = fields

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"ok": False, "error": self.code, **self.fields}
        if self.messages:
            body["errors"] = self.messages
            body["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in self.messages]}
        return body
