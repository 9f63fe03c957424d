"""The ports of a circuit: inputs, outputs, constants, and callbacks on streams.

Imports linear and traces.
"""
