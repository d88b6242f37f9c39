"""The service under load on this machine, against the same pipeline called in a loop one post at a time.

    python benchmarks/serve_load.py POSTS [--model hashtag-en] [--seconds 10] [--rounds 3] [--threads 2] [--out FILE]

`tagsmith serve` runs in a process of its own, and so do the clients, who send one post a request over kept connections.
Saturation: so many clients, each asking again as soon as it is answered. Below and beyond it: requests that arrive by
chance at a share of what 32 clients got, whether or not the earlier ones are answered; latency counts from the moment a
request was due. The loop runs while the service idles. Rounds alternate between the loop and the load, so that a busy
machine slows both alike; figures are medians of the rounds. Everything gets warm before the first round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx

from tagsmith.data.readers import good, read_posts

CLIENTS = (1, 8, 32, 64)
SHARES = (0.5, 0.8, 1.5)  # of what 32 clients got
BEYOND = 256  # texts that may wait: what comes beyond is refused


def start_service(model: str, threads: int) -> tuple[subprocess.Popen[str], str]:
    """A service of its own, and where it listens."""
    words = [sys.executable, "-m", "tagsmith", "serve", "--models", model, "--port", "0", "--threads", str(threads)]
    process = subprocess.Popen(
        [*words, "--queue", str(BEYOND)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return process, json.loads(process.stdout.readline())["serving"]


class Connection:
    """One kept connection; no library between, as the clients share the machine with the service."""

    def __init__(self, url: str) -> None:
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, text: str) -> int:
        """Ask for the tags of one post; returns the status. A connection that the service found idle is made anew."""
        if self.streams is None or self.streams[0].at_eof():
            self.close()
            self.streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self.streams
        body = json.dumps({"inputs": text}).encode()
        head = f"POST /tag HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].split("\r")[0]))
        return int(head.split()[1])

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()


def check(status: int) -> None:
    if status not in (200, 429):
        raise SystemExit(f"the service answered {status}")


async def _closed(url: str, posts: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Seconds of every request; each client asks again as soon as it is answered."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def ask(turn: int) -> None:
        connection = Connection(url)
        while (now := time.perf_counter()) < end:
            check(await connection.post(posts[turn % len(posts)]))
            taken.append(time.perf_counter() - now)
            turn += clients
        connection.close()

    await asyncio.gather(*map(ask, range(clients)))
    return taken


async def _open(url: str, posts: Sequence[str], rate: float, seconds: float) -> tuple[list[float], int]:
    """Seconds of every answered request, and how many were refused; arrivals by chance at a rate."""
    taken: list[float] = []
    refused = 0
    chance = random.Random(7)
    free: list[Connection] = []

    async def ask(text: str, due: float) -> None:
        nonlocal refused
        connection = free.pop() if free else Connection(url)
        status = await connection.post(text)
        free.append(connection)
        check(status)
        if status == 429:
            refused += 1
        else:
            taken.append(time.perf_counter() - due)

    due = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(round(rate * seconds)):
            due += chance.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(ask(posts[number % len(posts)], due))
    for connection in free:
        connection.close()
    return taken, refused


def closed(url: str, posts: Sequence[str], clients: int, seconds: float) -> dict[str, float]:
    """Runs in the clients' process."""
    started = time.perf_counter()
    taken = asyncio.run(_closed(url, posts, clients, seconds))
    return {"posts_per_second": len(taken) / (time.perf_counter() - started), **latency(taken)}


def opened(url: str, posts: Sequence[str], rate: float, seconds: float) -> dict[str, float]:
    """Runs in the clients' process."""
    started = time.perf_counter()
    taken, refused = asyncio.run(_open(url, posts, rate, seconds))
    spent = time.perf_counter() - started
    return {
        "asked_per_second": (len(taken) + refused) / spent,
        "posts_per_second": len(taken) / spent,
        "refused_share": refused / max(1, len(taken) + refused),
        **latency(taken),
    }


def latency(taken: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    ranked = sorted(taken)
    return {
        "p50_ms": 1000 * statistics.median(ranked),
        "p99_ms": 1000 * ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))],
    }


class Loop:
    """The pipeline in a process of its own, one post a call."""

    def __init__(self, model: str, threads: int) -> None:
        import torch

        import tagsmith

        torch.set_num_threads(threads)
        self.tagger = tagsmith.load(model)

    def run(self, posts: Sequence[str], seconds: float) -> dict[str, float]:
        taken: list[float] = []
        started = time.perf_counter()
        while (now := time.perf_counter()) - started < seconds:
            self.tagger.tag([posts[len(taken) % len(posts)]])
            taken.append(time.perf_counter() - now)
        return {"posts_per_second": len(taken) / sum(taken), **latency(taken)}


_loop: Loop | None = None


def looped(model: str, threads: int, posts: Sequence[str], seconds: float) -> dict[str, float]:
    """Runs in the loop's process, which keeps its pipeline."""
    global _loop
    _loop = _loop or Loop(model, threads)
    return _loop.run(posts, seconds)


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in rounds), 3) for name in rounds[0]}


def measure(args: argparse.Namespace, url: str, posts: Sequence[str]) -> dict[str, Any]:
    """All rounds."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as clients, ProcessPoolExecutor(1, mp_context=spawn) as loop:
        for count in (1, 32, 64, 32):  # every shape of tensor is met once before anything counts
            clients.submit(closed, url, posts, count, args.seconds).result()
        loop.submit(looped, args.model, args.threads, posts, args.seconds).result()
        one_by_one, by_clients = [], {count: [] for count in CLIENTS}
        for _ in range(args.rounds):
            one_by_one.append(loop.submit(looped, args.model, args.threads, posts, args.seconds).result())
            for count in CLIENTS:
                by_clients[count].append(clients.submit(closed, url, posts, count, args.seconds).result())
        most = statistics.median(one["posts_per_second"] for one in by_clients[32])
        by_share = {
            share: clients.submit(opened, url, posts, share * most, 2 * args.seconds).result() for share in SHARES
        }
    times = [
        many["posts_per_second"] / one["posts_per_second"] for one, many in zip(one_by_one, by_clients[32], strict=True)
    ]
    return {
        "loop": medians(one_by_one),
        "clients": {str(count): medians(rounds) for count, rounds in by_clients.items()},
        "arrivals": {f"{share:g}": medians([found]) for share, found in by_share.items()},
        "times_the_loop_at_32_clients": round(statistics.median(times), 2),
        "times_of_each_round": [round(one, 2) for one in times],
    }


def batches(url: str) -> float:
    """Texts of a pass, on average over everything."""
    lines = httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
    values = {line.split("{")[0]: float(line.split()[-1]) for line in lines if line.startswith("tagsmith_batch_texts_")}
    return round(values["tagsmith_batch_texts_sum"] / values["tagsmith_batch_texts_count"], 2)


def show(found: dict[str, Any]) -> None:
    """The figures as a Markdown table."""
    print("| load | posts/s | p50 ms | p99 ms | refused |\n|---|---|---|---|---|")
    rows = {"loop, one post at a time": found["loop"]}
    rows |= {f"{count} clients": row for count, row in found["clients"].items()}
    rows |= {f"arrivals at {share} of 32 clients'": row for share, row in found["arrivals"].items()}
    for name, row in rows.items():
        refused = f"{row.get('refused_share', 0):.0%}"
        print(f"| {name} | {row['posts_per_second']:.0f} | {row['p50_ms']:.0f} | {row['p99_ms']:.0f} | {refused} |")
    print(f"\n{found['times_the_loop_at_32_clients']} times the loop at 32 clients")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("posts", help="a file of posts")
    parser.add_argument("--model", default="hashtag-en")
    parser.add_argument("--count", type=int, default=512, help="posts of the file")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    posts = [post.text for post in good(read_posts(args.posts), lambda bad: None)][: args.count]
    process, url = start_service(args.model, args.threads)
    try:
        found = measure(args, url, posts)
        found |= {"texts_of_a_pass": batches(url), "model": args.model, "posts": len(posts), "threads": args.threads}
    finally:
        process.terminate()
        process.wait()
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    show(found)


if __name__ == "__main__":
    main()
