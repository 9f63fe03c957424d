"""Examples: each numbered file runs by itself; `python -m examples.stdlib_demo` is the demo."""
