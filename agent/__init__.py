"""The agent on each GPU node: reads, folds, publishes; later guards and carries out orders."""
