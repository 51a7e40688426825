"""What a person or a policy may have done on this node: asked again here before it is done, and done at most once."""
