"""Values and rows: types, schemas, the interner, Z-sets, and conversions to and from frames.

Every value has one int64 code; rows of codes with weights are batches, and a `ZSet` is a batch with
a schema and an interner. This package imports kernels only. All layers above may import it.
"""
