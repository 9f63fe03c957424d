"""The three stages of one circuit: the laws of incrementalisation, the passes, the lowering.

Imports the rooms with operators; only streams, the compiler and the user interfaces import this
room.
"""
