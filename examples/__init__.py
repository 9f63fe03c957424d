"""Examples: each numbered file is a program; `python -m examples.stdlib_demo` runs the demo."""
