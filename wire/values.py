"""Bounds for what a node or the bot may say: everything must fit into a database column of either kind."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Identity = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z][0-9A-Za-z._/:-]{0,95}$")]
Word = Annotated[str, msgspec.Meta(max_length=64)]
Sentence = Annotated[str, msgspec.Meta(max_length=200)]


class Known(StrEnum):
    """A newer speaker may send a member that this version does not know: it decodes as `unknown`."""

    @classmethod
    def _missing_(cls, value: object) -> "Known | None":
        return cls._value2member_map_.get("unknown") if isinstance(value, str) else None  # type: ignore[return-value]
