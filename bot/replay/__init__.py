"""The recorded past, judged again: what would have been said under other thresholds, and when."""
