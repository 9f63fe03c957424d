"""Nested scopes: the fixpoint, the evaluation of its body, and the streams that enter it.

Imports joins and the layers below, because the mode of a scope depends on its operators.
"""
