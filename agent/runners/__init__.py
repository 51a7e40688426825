"""How runners are read: presets are data, sources read one number each, the canary asks for one token."""
