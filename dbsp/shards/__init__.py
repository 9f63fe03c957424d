"""Sharded runs: one distributed circuit in several processes of one machine.

Imports `dbsp.durable` and below. Operators, the compiler and the user interfaces import it.
"""
