"""`python -m evenstream` is the command `evenstream`."""

import sys

from evenstream.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
