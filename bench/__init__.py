"""Measures what the project promises: the cost of an agent, the speed of the bot."""
