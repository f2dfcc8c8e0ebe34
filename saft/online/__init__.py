"""A network that grows while it is queried, and explanations of its predictions."""
