"""Linear operators: their own incremental form, without state.

Imports traces only. All other rooms of the operators may import this one.
"""
