"""Training and prediction: the loader decides what may be seen, the trainer runs the loop."""
