"""Datalog in Souffle's dialect: parse, check, stratify, plan, and lower to a circuit.

The rooms, each of which imports those before it only: tree, text, meaning, rewrites, plans,
circuits. (`rewrites` and `plans` do not import each other.) `compiler.why` stands above them.
"""
