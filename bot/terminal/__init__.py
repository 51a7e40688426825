"""The bot at the terminal of its own host: the same questions and decisions as in Slack."""
