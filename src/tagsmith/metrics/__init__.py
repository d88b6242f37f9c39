"""How good an answer is: sequences against sequences, ranked tags against the author's tags."""
