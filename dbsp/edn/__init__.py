"""EDN, the notation of Datomic's data: values, reader and writer.

Imports only the errors; every other package may use it.
"""
