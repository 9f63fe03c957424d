"""`python -m examples.stdlib_demo`: see demo.py."""

from examples.stdlib_demo.demo import app

if __name__ == "__main__":
    app(prog_name="python -m examples.stdlib_demo")
