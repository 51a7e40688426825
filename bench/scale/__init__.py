"""`make scale`: as many simulated nodes as file handles allow, against one bot with its own broker on this machine."""
