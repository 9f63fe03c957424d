"""The tree of a query: clauses, bindings, find specifications. Imports no compiler package."""
