"""The demo: recursive views over the standard library's source, kept exact while it changes."""
