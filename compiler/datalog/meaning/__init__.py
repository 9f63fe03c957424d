"""From the parsed to the checked program: names, kinds, safety, strata.

Imports tree and text, but neither plans nor circuits.
"""
