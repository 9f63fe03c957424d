"""The demo: recursive views over the standard library's own source, kept exact while the source changes."""
