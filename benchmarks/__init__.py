"""Measurements: `python -m benchmarks --help`. Results are printed, never kept in the repository."""
