"""One file of sentences per language; a new one is found by its name."""
