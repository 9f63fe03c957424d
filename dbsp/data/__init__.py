"""What values and rows are: types, schemas, the interner, Z-sets, and frames in and out.

Every value is one int64 code; rows of codes with weights are batches, and a `ZSet` is a batch with
a schema and an interner. Imports kernels only. Everything above may import this room.
"""
