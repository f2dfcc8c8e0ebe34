"""Answers over HTTP, and a page to review them on. The library does the work; this only wraps it."""
