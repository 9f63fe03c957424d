"""Linear operators without state; each is its own incremental form.

Imports traces only. All other rooms of the operators may import this one.
"""
