"""What operators with state share: arrangements, their column orders, rows that wait for a time.

The lowest room of the operators; every other one may import it.
"""
