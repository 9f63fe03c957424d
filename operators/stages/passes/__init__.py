"""Rewritings of a circuit, one pass per file.

Each pass is a function from a circuit to an equal circuit. It records its changes for `explain`.
`operators.stages.circuit_passes` lists the passes in order.
"""
