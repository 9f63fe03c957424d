"""The stages of one circuit: the laws of incrementalisation, the passes, the lowering.

Imports the packages of operators; only streams, the compiler and the user interfaces import this
package.
"""
