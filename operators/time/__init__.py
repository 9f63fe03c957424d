"""Operators over time: z^-1, integral and difference, changes of any function, event time.

Imports linear and traces.
"""
