"""The message shortcut "Acknowledge": on a card, and inside its thread, where no slash command works."""

ACKNOWLEDGE_SHORTCUT = "ack_message"
