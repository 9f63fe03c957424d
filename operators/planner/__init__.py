"""The query planner: from a conjunction of atoms to a tree of joins, for front ends and circuits.

A conjunction (`conjunction`) is the join part of a query: atoms over variables, the variables used
outside, and the conditions and functions that connect them. A plan (`tree`) is the order in which
the atoms are joined, two at a time or several at once.
"""
