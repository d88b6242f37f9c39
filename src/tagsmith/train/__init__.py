"""Training: one `fit()` for every model, with its schedules, checkpoints and log."""
