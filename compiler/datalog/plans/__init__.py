"""From checked rules to a plan for each: which joins, in which order, and what between them.

Imports tree, meaning and the planner.
"""
