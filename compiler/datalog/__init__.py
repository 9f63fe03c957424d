"""Datalog in Souffle's dialect: parse, check, stratify, plan, and lower to a circuit."""
