"""The circuit as a value: nodes, streams, the operator's specification, rewriting, drawing, JSON.

Nothing here runs a circuit. The graph knows no operator by name: operators add themselves to it.
This package imports state and the layers below it. The runtime, the operators and the compiler
build on it.
"""
