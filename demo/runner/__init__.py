"""A runner to test against: it speaks the surfaces that the agent reads, and can be put into each state."""

from demo.runner.life import Life, State
from demo.runner.process import Process
from demo.runner.server import Asked, Runner
from demo.runner.surfaces import SURFACES

__all__ = ["SURFACES", "Asked", "Life", "Process", "Runner", "State"]
