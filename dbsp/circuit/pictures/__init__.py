"""Pictures of circuits as data, and the forms in which they are shown.

`circuit_picture` makes the picture of a circuit: nodes, arrows and frames. The functions of the
other modules select, group, colour and combine pictures. `dot_form` and `mermaid_form` write a
picture as text. `dbsp.circuit.drawing` is the public interface.
"""
