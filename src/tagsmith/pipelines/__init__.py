"""Text in, records out: prepare, forward, finish."""
