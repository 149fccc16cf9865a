"""`python -m habemus` is the same as `habemus`."""

from habemus.cli import main

if __name__ == "__main__":
    main()
