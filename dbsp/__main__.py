"""`python -m dbsp` is the command `dbsp`."""

from dbsp.cli import main

if __name__ == "__main__":
    main()
