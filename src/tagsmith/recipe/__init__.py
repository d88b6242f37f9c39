"""A recipe (one TOML file) to a trained bundle.

recipe.toml --read_recipe--> Recipe --make--> OUT/{tokeniser, corpus, checkpoints, metrics, loss plot}, OUT/bundle
"""

from tagsmith.recipe.make import job_of, make
from tagsmith.recipe.own import own_recipe
from tagsmith.recipe.settings import Recipe, read_recipe

__all__ = ["Recipe", "job_of", "make", "own_recipe", "read_recipe"]
