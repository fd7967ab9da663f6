"""A connector process: requests on stdin, protocol lines on stdout, log lines on stderr."""
