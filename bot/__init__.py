"""The bot: stores, judges, tells people, listens to people."""
