"""A job from its first to its last part."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tagsmith.cluster.chunks import Part, cut
from tagsmith.cluster.crew import Crew, Team
from tagsmith.cluster.folder import check_output, check_same, open_folder
from tagsmith.cluster.job import Job

Begin = Callable[[Job], tuple[Team, int]]  # a team, and how many workers it may have


@dataclass(frozen=True)
class Summary:
    """What is in place at the end."""

    rows: int
    errors: int  # rows that have one
    parts: int


def run_job(
    job: Job,
    output: Path,
    begin: Begin,
    *,
    resume: bool = False,
    on_begin: Callable[[int], None] = lambda rows: None,
    on_part: Callable[[Part], None] = lambda part: None,
    on_lost: Callable[[str], None] = lambda why: None,
) -> Summary:
    """Answer every row of the job's files.

    `on_begin` hears how many rows were done before, `on_part` of each new part, `on_lost` why a worker ended.
    """
    there = check_output(output, job.root, resume=resume)
    if job.task == "reply" and job.ask.seed is None:
        job = job.seeded(there["job"]["options"]["seed"] if there else secrets.randbits(48))
    if there:
        check_same(output, job)
    if there and there.get("finished"):
        return Summary(there["rows"], there["errors"], there["parts"])
    team, size = begin(job)
    try:
        crew = Crew(team, size, on_lost)
        crew.start()
        with open_folder(output, job) as folder:
            on_begin(folder.rows)
            chunks = cut(job.files, job.reads, job.fields, job.part_rows, skip_file=folder.has_file, skip=folder.has)
            for part in crew.parts(chunks):
                folder.put(part)
                on_part(part)
            folder.finish()
            return Summary(folder.rows, folder.errors, folder.parts)
    finally:
        team.close()
