"""What a query means: variables, kinds of values, functions, and its checked rules."""
