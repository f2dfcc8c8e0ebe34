"""Predictions over HTTP, the store of what came in, and the review page."""
