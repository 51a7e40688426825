"""What a span of time came to: GPU-hours, energy, stalls, and how often we were wrong. Reads nothing by itself."""
