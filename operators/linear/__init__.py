"""Linear operators without state; each is its own incremental form.

Imports traces only. All packages of operators except traces may import this one.
"""
