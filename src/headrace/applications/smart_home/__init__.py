"""A house that learns habits, switches lights ahead, and acts when something is wrong."""
