"""From program text to a parsed program: preprocessor, lexer, parser; positions are kept.

Imports tree.
"""
