"""Distillation (Hinton et al., 2015): a small model learns what a large one believes, besides what is written.

batch --student--> scores --cross-entropy with the target-------------------+
      --teacher, fixed--> scores --softmax--> KL to the student's softmax ---+--> loss
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tagsmith.text.pieces import PAD


class Distilled(nn.Module):
    """A student that is trained beside its teacher; both write over the same vocabulary."""

    def __init__(self, student: Any, teacher: Any, *, share: float = 0.5) -> None:
        super().__init__()
        self.student = student
        self.config = student.config
        self.share = share  # of the loss that comes from the teacher
        self._teacher = [teacher.eval().requires_grad_(False)]  # in a list: not a part, not saved, not trained

    def forward(self, batch: Any) -> Any:
        """The student's scores."""
        return self.student(batch)

    def loss(self, batch: Any) -> Tensor:
        """Both losses, each a mean over the target tokens."""
        with torch.no_grad():
            wanted = self._teacher[0](batch).scores.float().log_softmax(-1)
        states, memory = self.student.write(batch)
        scores = self.student.scores(states, memory)
        real = (batch.target != PAD).flatten()
        apart = nn.functional.kl_div(
            scores.float().log_softmax(-1).flatten(0, 1), wanted.flatten(0, 1), log_target=True, reduction="none"
        ).sum(-1)
        from_teacher = (apart * real).sum() / real.sum()
        return self.share * from_teacher + (1 - self.share) * self.student.loss_of(states, memory, batch)

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling."""
        return self.student.repeated_parts()

    def to(self, *args: Any, **kwargs: Any) -> Distilled:
        """The teacher goes along."""
        self._teacher[0].to(*args, **kwargs)
        return super().to(*args, **kwargs)
