"""That an order is not carried out, and why."""

import msgspec

from wire.remedies import Refusal


class Refused(msgspec.Struct, frozen=True):
    """`why` is a sentence without its end, for people."""

    code: Refusal
    why: str
