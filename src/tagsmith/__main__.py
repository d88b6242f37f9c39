"""`python -m tagsmith`."""

from tagsmith.cli import main

if __name__ == "__main__":
    main()
