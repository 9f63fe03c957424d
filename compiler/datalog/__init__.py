"""Datalog in Soufflé's dialect: parse, check, stratify, plan, and lower to a circuit.

The packages, each of which imports only the ones before it: tree, text, meaning, rewrites, plans,
circuits. (`rewrites` and `plans` do not import each other.) `compiler.why` imports all of them.
"""
