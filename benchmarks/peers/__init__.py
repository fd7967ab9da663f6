"""What others do with the same rows: by hand, and other programs, where they can be had."""
