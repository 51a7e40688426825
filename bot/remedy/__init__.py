"""One request for a restart or a reboot, decided: who may approve, what stands in the way, what proves it."""
