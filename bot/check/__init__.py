"""The command `gpu-oncall check`: what stands between this bot and people, why it matters, what to do."""
