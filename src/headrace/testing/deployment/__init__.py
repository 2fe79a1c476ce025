"""The Spark host's protocol in one process, on a simulated disk: every crash can be tried, and tried again."""
