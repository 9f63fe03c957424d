"""Incremental dataflow circuits: queries kept fresh over changing data."""
