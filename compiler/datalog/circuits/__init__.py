"""From plans to the query circuit, and reports about both.

Imports plans, rewrites, meaning and the operators.
"""
