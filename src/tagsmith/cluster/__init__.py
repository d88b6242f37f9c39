"""The same pipelines over files of any size, on all cores of a machine or on a Ray cluster.

files --cut--> Chunk --a worker, model loaded once--> Part --Folder: beside, fsync, rename, log--> OUTPUT/part-*

One process reads the input and writes the output; workers see rows and give back the bytes of a finished part. So a
worker may die at any moment, nothing but the model has to lie where it runs, and each chunk is placed exactly once.
"""

from tagsmith.cluster.job import Job, make_job
from tagsmith.cluster.run import Summary, run_job

__all__ = ["Job", "Summary", "make_job", "run_job"]
