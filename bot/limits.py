"""What one node may send in a time: over it, the rest is dropped and said once, and no other node is touched."""

from dataclasses import dataclass

from wire import subjects


@dataclass(frozen=True)
class Limit:
    """So many at once, and so many each second after that."""

    at_once: float
    each_second: float


# A node that was away sends up to a week of windows at once, as many as the stream keeps for it; in normal life one
# each 5 minutes. A heartbeat comes each 30 s and at every change of a verdict.
WINDOWS = Limit(at_once=4000, each_second=10)
HEARTBEATS = Limit(at_once=100, each_second=20)


class Budget:
    """Counts by node. Names come from subjects, so a server with our rights lets only enrolled nodes fill it."""

    def __init__(self, limit: Limit, most_nodes: int = 20_000) -> None:
        self._limit = limit
        self._most_nodes = most_nodes
        self._left: dict[str, tuple[float, float]] = {}
        self._over: set[str] = set()

    def take(self, subject: str, now_seconds: float) -> bool:
        """Whether one more message of this subject's node is within its limit."""
        node = subjects.node_of(subject)
        left, before = self._left.get(node, (self._limit.at_once, now_seconds))
        left = min(self._limit.at_once, left + max(0.0, now_seconds - before) * self._limit.each_second)
        if left >= self._limit.at_once:
            self._over.discard(node)
        if left < 1 or (node not in self._left and len(self._left) >= self._most_nodes):
            return False
        self._left[node] = (left - 1, now_seconds)
        return True

    def first_over(self, subject: str) -> bool:
        """Whether the node was not over its limit since it last had its whole budget: it is told once."""
        node = subjects.node_of(subject)
        if node in self._over or len(self._over) >= self._most_nodes:
            return False
        self._over.add(node)
        return True
