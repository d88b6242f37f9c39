"""Train a recipe on a Ray cluster: the same as `tagsmith train RECIPE`, with a process for each worker.

    python examples/ray_train.py RECIPE.toml --out FOLDER [--workers 2] [--gpu] [--address HOST:PORT] [--set key=value]

Ray Train places the processes, connects them, and starts all of them again when one dies; Tagsmith then goes on from
the last checkpoint in FOLDER. FOLDER and the data must be reachable under the same path from every node.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from pathlib import Path
from typing import Any


def train(settings: dict[str, Any]) -> None:
    """One process of several: `make` finds the others through what Ray Train has set up."""
    from tagsmith.recipe import make, read_recipe

    out = Path(settings["out"])
    resume = (out / "checkpoint.safetensors").exists()
    make(read_recipe(Path(settings["recipe"]), settings["changes"]), out, resume=resume)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="a GPU for each worker")
    parser.add_argument("--address", help="of the cluster; default: RAY_ADDRESS, or this machine alone")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a setting: train.epochs=3")
    parser.add_argument("--tries", type=int, default=3, help="how often to start again after a worker died")
    args = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    out = args.out.resolve()
    ray.init(address=args.address, log_to_driver=False, logging_level=logging.ERROR)
    TorchTrainer(
        train,
        train_loop_config={"recipe": str(args.recipe.resolve()), "out": str(out), "changes": args.changes},
        scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=args.gpu),
        run_config=RunConfig(name="ray", storage_path=str(out), failure_config=FailureConfig(max_failures=args.tries)),
    ).fit()
    print(json.dumps({"bundle": str(out / "bundle")}))


if __name__ == "__main__":
    main()
