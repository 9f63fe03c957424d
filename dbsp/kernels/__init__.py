"""The inner loops: compiled functions over flat int64 arrays, with no Python objects in them."""

from dbsp.kernels.sort import concatenate, consolidate, project

__all__ = ["concatenate", "consolidate", "project"]
