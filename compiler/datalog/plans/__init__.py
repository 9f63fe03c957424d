"""From checked rules to one plan per rule: the joins, their order, and the steps between them.

Imports tree, meaning and the planner.
"""
