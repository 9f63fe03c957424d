"""The query planner: from a conjunction of atoms to a tree of joins, for every front end alike.

A conjunction (`conjunction`) is a query's join part: atoms over variables, what is used of them
outside, and which conditions and functions connect them. A plan (`tree`) says in which order the
atoms are joined, two at a time or several at once.
"""
