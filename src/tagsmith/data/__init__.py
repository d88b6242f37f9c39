"""Files to records and back, and records to tensors."""
