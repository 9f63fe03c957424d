"""Running a circuit: scopes that step it, runs with inputs and outputs, and switching circuits.

A run steps its circuit once per tick, all or nothing. This package imports `dbsp.circuit` and the
packages below it. Checkpoints, operators, the compiler, the command line and Spark import it.
"""
