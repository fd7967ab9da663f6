"""Text: sizes and names in configurations, what a terminal may show, and how deep JSON may be nested."""
