"""Benchmarks: `python -m benchmarks --help`. Results are printed, not stored in the repository."""
