"""What operators with state share: arrangements and column orders, lowering, rows that wait for a time.

The lowest room of the operators; every other one may import it.
"""
