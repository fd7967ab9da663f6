"""``python -m tidemark.runtime`` is the ``tidemark`` command."""

from tidemark.runtime.cli import main

if __name__ == "__main__":
    main()
