"""Rewritings of a checked program to one that derives the same outputs and costs a live circuit less.

Each is a function from a program to a program, one per file; it notes what it changed, for `explain`. What
inputs hold and what the outputs are is the same after it, at every tick and under deletions; relations in
between may be gone or hold fewer rows. `compiler.datalog.compiler_passes` has them in their order.
"""
