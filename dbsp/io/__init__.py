"""Reading and writing files: fact files, result files and change scripts.

docs/reference/file-formats.md and docs/reference/change-scripts.md describe the formats.
"""
