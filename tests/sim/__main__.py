"""Runs schedules: many of them, over both cores, or one seed as a story."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from time import perf_counter

from tests.sim.hunting import FEW_SCHEDULES, MUTANTS, RARE, caught, number_of
from tests.sim.schedule import run_schedule


def main() -> int:
    """Exit status 1 when a law broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000, help="how many schedules to try")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="tell one schedule as a story")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="with one mutation of the engine")
    parser.add_argument("--near", action="store_true", help="tell where slowly caught mutants are caught")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # that runs wait for code is what some schedules are about
    if given.seed is not None:
        with MUTANTS[given.mutant]() if given.mutant else nullcontext():
            broken = run_schedule(given.seed, print)
        print(broken or "every law held")
        return 1 if broken else 0
    if given.near:
        return _near(given.jobs)
    return _many(given.first, given.count, given.mutant, given.jobs)


def _many(first: int, count: int, mutant: str | None, jobs: int) -> int:
    began = perf_counter()
    size = 500
    chunks = [(start, min(size, first + count - start), mutant) for start in range(first, first + count, size)]
    broken: list[tuple[int, str]] = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:  # others cannot import `__main__`
        for number, found in enumerate(pool.map(_chunk, chunks), 1):
            broken += found
            if sys.stderr.isatty():
                print(f"\r{min(number * size, count)} schedules, {len(broken)} broken", end="", file=sys.stderr)
    for seed, why in broken[:5]:
        print(f"seed {seed}: {why}")
    seconds = perf_counter() - began
    print(f"{mutant or 'no mutant'}: {count} schedules in {seconds:.0f} s, {len(broken)} broken")
    return 1 if broken else 0


def _near(jobs: int) -> int:
    """Prints what `hunting.NEAR` should say, after a change that shifts the schedules."""
    names = sorted(MUTANTS.keys() - RARE)
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for name, found in zip(names, pool.map(caught, names), strict=True):
            if found is None:
                print(f"{name}: nobody noticed it", flush=True)
            elif found.schedules > FEW_SCHEDULES:
                print(f'    "{name}": {number_of(name, found.seed)},  # after {found.schedules}', flush=True)
    return 0


def _chunk(chunk: tuple[int, int, str | None]) -> list[tuple[int, str]]:
    first, count, mutant = chunk
    gc.freeze()  # what is imported stays
    gc.set_threshold(50_000, 20, 100)  # a world makes many values, and few that hold each other
    with MUTANTS[mutant]() if mutant else nullcontext():
        return [(seed, why) for seed in range(first, first + count) if (why := run_schedule(seed))]


if __name__ == "__main__":
    sys.exit(main())
