"""Operators over time: delay, integral, difference, changes of any function, event time.

Imports linear and traces.
"""
