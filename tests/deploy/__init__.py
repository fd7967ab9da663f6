"""What is in ``deploy/``: images, and how a capture is run as a service."""
