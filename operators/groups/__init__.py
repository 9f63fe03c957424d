"""Functions of groups: aggregates, distinct, ranking, choice, equivalence classes.

A tick recomputes or updates the groups with changes. Imports time, linear and traces.
"""
