"""Building a circuit by hand: `Circuit`, and `Stream` with one method per operator.

The top layer of the operators. The compiler builds its circuits through it, too.
"""
