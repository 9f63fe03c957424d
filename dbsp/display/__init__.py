"""Displays: how values look in a notebook and on a terminal.

Every class describes its values as a document of tables, trees, program text and pictures. One
writer turns documents into HTML, another one into objects of `rich`.
"""
