"""The terms and formulas of parsed and checked programs, and their traversal.

`syntax` has one class for each kind of term and formula, `kinds` the kinds that inference gives to
terms, `traversal` the functions that treat all nodes in the same way. A new kind of term needs a
class in `syntax`, and a case in one place per concept: its kind in `meaning.kind_inference`, its
text in `meaning.show`, its value in `meaning.term_expressions`.

Imports no other package of the compiler.
"""
