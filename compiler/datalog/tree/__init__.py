"""The terms and formulas of parsed and checked programs, and ways through them.

`syntax` has one class for each kind of term and formula, `kinds` the kinds that inference gives to
terms, `traversal` the functions that treat all nodes alike. A new kind of term is a class in
`syntax`, and a case in one place per concept: its kind in `meaning.kind_inference`, its text in
`meaning.show`, its value in `meaning.term_expressions`.

Imports no other room of the compiler.
"""
