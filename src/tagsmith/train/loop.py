"""One loop for every model: it knows `loss(batch)`, a metric to watch, and nothing of the task.

batches --loss--> gradients --clip, AdamW, schedule--> weights --now and then: evaluate, checkpoint--> best weights
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from tagsmith.config import check_positive
from tagsmith.errors import TrainError
from tagsmith.train.checkpoint import Progress, load_checkpoint, load_weights, save_checkpoint, save_weights
from tagsmith.train.graphs import Graphed
from tagsmith.train.optimiser import Kind, make_optimiser, reset_momentum, take_step
from tagsmith.train.schedule import Schedule, factor

Evaluate = Callable[[nn.Module], dict[str, float]]
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class TrainSettings:
    """How to train; what to train is the model's."""

    epochs: float = 10.0
    steps: int = 0  # instead of epochs
    learning_rate: float = 6e-4
    optimiser: Kind = "adamw"
    schedule: Schedule = "cosine"
    warmup: float = 0.04  # share of all steps
    reader_rate: float = 1.0  # factor on the learning rate of a reader that was trained before
    code_rate: float = 1.0  # and on that of what makes a code of a title
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    precision: Literal["auto", "bf16", "fp32"] = "auto"  # auto: bf16 on a GPU
    compile: bool = False
    graphs: bool = False  # on one GPU: record the steps and replay them
    evaluate_every: int = 0  # steps; 0: once an epoch
    patience: int = 0  # evaluations without a better metric before stopping; 0: never
    plateau: float = 1.0  # factor on the learning rate when an evaluation is no better
    plateau_change: float = 0.0  # no better: changed by less than this share; halved each time
    metric: str = "f1@1"
    checkpoints: bool = True  # False: a short run keeps its best weights in memory and cannot be resumed
    log_every: int = 50
    seed: int = 1

    def __post_init__(self) -> None:
        check_positive(self, "log_every")


class BatchSource(Protocol):
    """What the loop asks of its data; a step is one or more batches."""

    def shard(self, rank: int, world: int) -> BatchSource: ...
    def steps(self, epoch: int) -> int: ...
    def epoch(self, number: int, *, skip: int = 0) -> Iterator[list[Any]]: ...


class _Loss(nn.Module):
    """`model.loss` as a forward pass, which is what compilers and distributed wrappers take hold of."""

    model: Any

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> Tensor:
        return self.model.loss(batch)


def fit(
    model: nn.Module,
    batches: BatchSource,
    settings: TrainSettings,
    folder: Path,
    *,
    evaluate: Evaluate | None = None,
    resume: bool = False,
    report: Report = lambda event: None,
) -> Progress:
    """Train until the steps are done or the metric stops rising; the model ends with its best weights."""
    return _Run(model, batches, settings, folder, evaluate=evaluate, report=report).go(resume=resume)


@dataclass
class _Window:
    """What was done since the last report."""

    batches: int = 0
    posts: int = 0
    since: float = field(default_factory=time.perf_counter)


class _Run:
    """The state of one training run."""

    def __init__(
        self,
        model: Any,  # an nn.Module with `loss`, and with `repeated_parts` where it is to be compiled
        batches: BatchSource,
        settings: TrainSettings,
        folder: Path,
        *,
        evaluate: Evaluate | None,
        report: Report,
    ) -> None:
        from accelerate import Accelerator, DistributedDataParallelKwargs  # seconds to import

        self.settings, self.folder, self.evaluate, self.report = settings, folder, evaluate, report
        on_gpu = torch.cuda.is_available()
        bf16 = settings.precision == "bf16" or (settings.precision == "auto" and on_gpu)
        self.accelerator = Accelerator(
            mixed_precision="bf16" if bf16 else "no",
            cpu=not on_gpu,
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],  # Pointer has some
        )
        self.model = model.to(self.accelerator.device)
        self.batches = batches.shard(self.accelerator.process_index, self.accelerator.num_processes)
        if settings.compile:
            for part in self.model.repeated_parts():
                part.compile(dynamic=True)
        self.loss = self.accelerator.prepare(_Loss(self.model))
        self.optimiser = make_optimiser(
            self.model,
            settings.optimiser,
            weight_decay=settings.weight_decay,
            betas=settings.betas,
            rates={"reader": settings.reader_rate, "sum_up": settings.code_rate, "code": settings.code_rate},
        )
        self.best: dict[str, Tensor] = {}  # the best weights of a run without checkpoints
        self.per_epoch = self.batches.steps(0)
        self.steps = settings.steps or max(1, round(settings.epochs * self.per_epoch))
        self.progress = Progress()
        self.skipped = torch.zeros((), device=self.accelerator.device)
        self.running = torch.zeros((), device=self.accelerator.device)  # sum of losses since the last report
        self.window = _Window()
        alone = on_gpu and self.accelerator.num_processes == 1
        self.graphed = Graphed(self._backward, self.accelerator.device) if settings.graphs and alone else None
        self.log = _Log(folder / "metrics.jsonl", active=self.accelerator.is_main_process)

    def go(self, *, resume: bool) -> Progress:
        """From the beginning, or from the last checkpoint."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume:
            self.progress = load_checkpoint(self._checkpoint, self.model, self.optimiser)
            self.progress.done = self._finished()  # by today's settings
        else:
            torch.manual_seed(self.settings.seed + self.accelerator.process_index)
        self.log.begin(keep_until=self.progress.step if resume else 0)
        try:
            while not self.progress.done:
                self._epoch()
        except KeyboardInterrupt:
            self._save()
            raise
        finally:
            for part in self.model.modules():
                part._compiled_call_impl = None  # whoever uses the model next meets other shapes
        if self.best:
            self.model.load_state_dict(self.best, strict=False)
        elif self.progress.best is not None:  # not a file that an older run left
            load_weights(self.folder / "best.safetensors", self.model)
        return self.progress

    def _epoch(self) -> None:
        """One pass over the data, or what is left of it."""
        self.model.train()
        stream = self.batches.epoch(self.progress.epoch, skip=self.progress.batch)
        try:
            for batches in stream:
                self._step(batches)
                self.window.batches += len(batches)
                self.window.posts += sum(len(batch[0]) for batch in batches)
                if self.progress.step % self.settings.log_every == 0 or self._due():
                    self._report()
                if self._due():
                    self._check()
                    self.window = _Window()
                if self.progress.done:
                    return
        finally:
            stream.close()  # type: ignore[attr-defined]
        self.progress.epoch += 1
        self.progress.batch = 0

    def _step(self, batches: list[Any]) -> None:
        """One optimiser step over one or more batches; nothing here asks the device for a number."""
        for place, batch in enumerate(batches):
            if self.graphed is not None:
                self.graphed(batch)
                continue
            apart = self.accelerator.num_processes > 1 and place + 1 < len(batches)
            with self.accelerator.no_sync(self.loss) if apart else nullcontext():
                self._backward(batch.to(self.accelerator.device))
        self._update(len(batches))
        self.progress.step += 1
        self.progress.batch += 1

    def _backward(self, batch: Any) -> None:
        with self.accelerator.autocast():
            loss = self.loss(batch)
        loss.backward()
        self.running += loss.detach().nan_to_num(0.0, posinf=0.0, neginf=0.0)

    def _update(self, parts: int) -> None:
        """Take the step that the gradients of so many batches ask for."""
        weights = [weight for weight in self.model.parameters() if weight.grad is not None]
        torch._foreach_div_([weight.grad for weight in weights], parts)
        norm = nn.utils.clip_grad_norm_(weights, self.settings.clip)
        unusable = (~torch.isfinite(norm)).float()
        self.skipped += unusable
        take_step(self.optimiser, self._rate(), unusable=unusable)
        self.optimiser.zero_grad(set_to_none=self.graphed is None)  # recordings add to gradients where they lie

    def _rate(self) -> float:
        """The learning rate of the step to be taken."""
        settings, step = self.settings, self.progress.step
        warmup = max(1, round(settings.warmup * self.steps))
        share = factor(settings.schedule, step, steps=self.steps, warmup=warmup)
        return settings.learning_rate * self.progress.damping * share

    def _due(self) -> bool:
        step, every = self.progress.step, self.settings.evaluate_every or self.per_epoch
        return step % every == 0 or step >= self.steps

    def _check(self) -> None:
        """Evaluate, keep the best weights, decide whether to go on, and save."""
        progress, settings = self.progress, self.settings
        if self.evaluate is not None:
            start = time.perf_counter()
            self.model.eval()
            with torch.compiler.set_stance("force_eager"):
                scores = self.evaluate(self.model)
            self.model.train()
            seconds = round(time.perf_counter() - start, 1)
            if settings.metric not in scores:
                raise TrainError(f"the metric {settings.metric!r} is not among {sorted(scores)}; set train.metric")
            value = -scores["loss"] if settings.metric == "loss" else scores[settings.metric]
            self._judge(value, scores)
            named = {f"dev_{name}": score for name, score in scores.items()}
            self.log.write({"step": progress.step, **named, "evaluation_seconds": seconds})
            self.report({"kind": "evaluation", "step": progress.step, **scores})
        progress.done = self._finished()
        self._save()

    def _judge(self, value: float, scores: dict[str, float]) -> None:
        progress, settings = self.progress, self.settings
        self._judge_change(value)
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step, progress.stale, progress.scores = value, progress.step, 0, scores
            self._keep_best()
            return
        progress.stale += 1
        if not settings.plateau_change:
            progress.damping *= settings.plateau

    def _keep_best(self) -> None:
        if not self.settings.checkpoints:
            trained = {name: one for name, one in self.model.named_parameters() if one.requires_grad}
            self.best = {name: one.detach().clone() for name, one in trained.items()}
        elif self.accelerator.is_main_process:
            save_weights(self.folder / "best.safetensors", self.model)
        self.accelerator.wait_for_everyone()

    def _judge_change(self, value: float) -> None:
        """Tweet2Vec's rule: a small change lowers the learning rate, stops the momentum, and asks for a smaller one."""
        progress, settings = self.progress, self.settings
        last, progress.last = progress.last, value
        if settings.plateau_change and last:
            least = settings.plateau_change * 0.5**progress.lowered
            if abs(value - last) / abs(last) < least:
                progress.damping *= settings.plateau
                progress.lowered += 1
                reset_momentum(self.optimiser)

    def _finished(self) -> bool:
        """All steps are done, or the metric has not risen for too long."""
        patience = self.settings.patience
        return self.progress.step >= self.steps or bool(patience and self.progress.stale >= patience)

    def _save(self) -> None:
        if self.accelerator.is_main_process and self.settings.checkpoints:
            save_checkpoint(self._checkpoint, self.model, self.optimiser, self.progress)
        self.accelerator.wait_for_everyone()

    def _report(self) -> None:
        # asking for the numbers waits for the device: the clock is read after it
        value, skipped = self.running.item() / self.window.batches, int(self.skipped.item())
        speed = self.window.posts / (time.perf_counter() - self.window.since)
        self.running.zero_()
        self.window = _Window()
        if skipped > max(20, self.progress.step // 20):
            raise TrainError(f"{skipped} of {self.progress.step} steps had no finite gradient; lower the learning rate")
        rate = self.optimiser.param_groups[0]["lr"]
        event = {"step": self.progress.step, "loss": value, "learning_rate": rate, "posts_per_second": round(speed, 1)}
        if skipped:
            event["skipped"] = skipped
        self.log.write(event)
        self.report({"kind": "step", "steps": self.steps, **event, **asdict(self.progress)})

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"


class _Log:
    """One JSON line for each report; on resuming, lines past the checkpoint are dropped."""

    def __init__(self, path: Path, *, active: bool) -> None:
        self.path, self.active = path, active

    def begin(self, *, keep_until: int) -> None:
        if not self.active:
            return
        kept = []
        if keep_until and self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            whole = [line.rstrip() for line in lines if line.endswith("\n")]  # a kill may have cut the last one
            kept = [line for line in whole if json.loads(line)["step"] <= keep_until]
        self.path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

    def write(self, event: dict[str, Any]) -> None:
        if self.active:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
