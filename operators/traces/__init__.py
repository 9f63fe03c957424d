"""What operators with state share: arrangements, column orders, lowering, the agenda.

The lowest layer of the operators; every other package of operators may import it.
"""
