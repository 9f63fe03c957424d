"""Functions of groups: aggregates, distinct, ranking, choice, classes of an equivalence.

A change recomputes or updates the groups that it touches. Imports time, linear and traces.
"""
