"""Where a circuit faces the outside: inputs, outputs, constants, taps.

Imports linear and traces.
"""
