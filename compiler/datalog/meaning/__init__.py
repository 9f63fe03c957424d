"""From the parsed to the checked program: names, kinds, safety, strata.

Imports tree and text. Nothing here knows of plans or circuits.
"""
