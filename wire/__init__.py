"""What node and bot say to each other, and the one file that both read."""
