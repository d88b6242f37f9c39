"""Text as the models read it: cleaned, split, numbered, and the tags found again in it; nothing here needs torch."""
