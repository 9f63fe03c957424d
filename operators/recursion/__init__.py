"""Nested scopes: the fixpoint, how its body is evaluated, and what enters it.

Imports joins and the rooms below, since it has to know which operators keep a scope insert-only.
"""
