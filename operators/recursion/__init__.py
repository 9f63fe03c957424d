"""Nested scopes: the fixpoint, the evaluation of its body, and the streams that enter it.

This room imports joins and the rooms below, because the mode of a scope depends on its operators.
"""
