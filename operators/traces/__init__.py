"""What operators with state share: arrangements, column orders, lowering, the agenda.

The lowest room of the operators; every other room may import it.
"""
