"""Text that people write and read: sizes and names in configurations, and what a terminal may show."""
