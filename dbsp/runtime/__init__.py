"""A circuit at work: scopes that step it, the run with its inputs and outputs, switching circuits.

A run steps its circuit once per tick, all or nothing. Imports circuit and what is below it.
Checkpoints, operators, the compiler and the two faces (command line, Spark) build on this room.
"""
