"""Rewritings of a circuit, one pass per file.

Each pass is a function from a circuit to an equal circuit; it notes what it changed, for `explain`.
`operators.stages.circuit_passes` has them in their order.
"""
