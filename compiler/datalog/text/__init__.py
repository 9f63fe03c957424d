"""From program text to a syntax tree: preprocessor, lexer, parser; positions are kept."""
