"""The parts models are made of: tensors in, tensors out, no strings and no settings objects."""
