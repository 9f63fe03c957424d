"""From the syntax tree to the checked program: names, types, safety, strata.

Imports text. Nothing here knows of plans or circuits.
"""
