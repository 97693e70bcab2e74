"""`fieldlab race LAB`: a race without the page, as a table or as JSON with machine, versions and conditions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from compute.devices.backends import BACKENDS, backend
from compute.export.parameter_texts import values_of
from compute.files.documents import as_json
from compute.lab.lab import Lab
from compute.labs import lab_class, labs
from compute.measure.benchmark import benchmark_of
from compute.measure.conditions import cpu_warnings, provenance
from compute.measure.race import (
    FEWEST_LANES,
    MOST_LANES,
    MOST_STEPS,
    RECORDED,
    Lane,
    Race,
    Racer,
    RaceResult,
    default_racers,
    possible_racers,
    require_whole_numbers,
    run_race,
    steps_to,
)
from compute.measure.records import Recorded, library

OK, DISAGREED = 0, 1  # exit codes
SCHEMA = "fieldlab-race/1"
WIDTH = 150  # columns of the table if the output is not a terminal


def add_race(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("race", help="run the same work on several backends, compare results and times")
    parser.add_argument("lab", metavar="LAB", help=f"one of {', '.join(lab.LAB for lab in labs())}")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the lab")
    parser.add_argument("--work", default="", help='named work of a lab, such as "the lesson\'s scene"')
    finish = parser.add_mutually_exclusive_group()
    finish.add_argument("--steps", type=int, help=f"steps to the finish, at most {MOST_STEPS}; 0: a few seconds")
    finish.add_argument("--time", type=float, help="simulated time to the finish, in Δx²/D for diffusion")
    finish.add_argument(
        "--tolerance", type=float, help="tolerance of a complete result: the width of l_curve's ribbons"
    )
    parser.add_argument(
        "--backends",
        default="",
        help=f"{FEWEST_LANES} to {MOST_LANES} lanes of {','.join(b.name for b in BACKENDS)}, a variant such as "
        f"cpu_numba:one-step, or {RECORDED} for a recorded run of the same work (default: the available "
        "backends and the record)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    parser.set_defaults(run=run_command)


def run_command(chosen: argparse.Namespace, command: str) -> int:
    """Run the requested race; raise ValueError for an invalid request."""
    race = race_of(chosen)
    terminal = Console(stderr=True, soft_wrap=True)
    with terminal.status("warming up") as status:
        result = run_race(race, lambda part, words: status.update(f"{words}, {part:.0%}"))
    if chosen.json:
        made = {"schema": SCHEMA, **as_document(race, result), **provenance(command, samples_of(result))}
        sys.stdout.write(f"{as_json(made, sys.stdout)}\n")
    else:
        out = Console()
        show(race, result, out if out.is_terminal else Console(width=WIDTH))
    return OK if all(lane.right for lane in result.lanes) and not result.left_out else DISAGREED


def race_of(chosen: argparse.Namespace) -> Race:
    """Return the race for these arguments."""
    lab = lab_class(chosen.lab)
    raced: Mapping[str, Mapping[str, Any]] = benchmark_of(lab).raced
    if chosen.work and chosen.work not in raced:
        known = ", ".join(raced) or "none in this lab"
        raise ValueError(f"--work must be one of {known}, not {chosen.work!r}")
    values = dict(raced.get(chosen.work, {}))
    values |= values_of(lab, chosen.set, values)
    if chosen.tolerance is not None:
        reached, _ = benchmark_of(lab).reached
        if not reached:
            raise ValueError(f"--tolerance does not apply to {lab.LAB}")
        values[reached] = chosen.tolerance
    require_whole_numbers(lab, values)
    figures = library()[0]
    racers = default_racers(lab, values, figures)
    if chosen.backends:
        racers = lanes_of(chosen.backends, lab, values, figures)
    if chosen.time is not None:
        return Race(lab, values, racers, steps_to(lab, values, chosen.time), chosen.time)
    return Race(lab, values, racers, chosen.steps or 0)


def lanes_of(text: str, lab: type[Lab], values: Mapping[str, Any], figures: Sequence[Recorded]) -> tuple[Racer, ...]:
    """Return the racers that `text` names, in its order."""
    possible = {racer.key: racer for racer in possible_racers(lab, values, figures)}
    racers = []
    for name in (part.strip() for part in text.split(",")):
        if name == RECORDED and name not in possible:
            raise ValueError(f"--backends: no recorded run of {lab.LAB} matches these settings")
        of, _, variant = name.partition(":")
        if variant and name not in possible and Racer(backend(of).name).key in possible:
            known = ", ".join(key for key in possible if key.startswith(f"{of}:")) or "none in this lab"
            raise ValueError(f"--backends: other kernels of {of} are {known}, not {variant!r}")
        racers.append(possible.get(name) or Racer(backend(of).name, variant))
    return tuple(racers)


def samples_of(result: RaceResult) -> int:
    """Return the number of timings in the result."""
    return sum(lane.step.n for lane in result.lanes)


def as_document(race: Race, result: RaceResult) -> dict[str, Any]:
    """Return a result as plain values, times in seconds; `step` has median and quartiles of a step or a whole run."""
    return {
        "lab": race.lab.LAB,
        "words": result.words,
        "steps": result.steps,
        "unit": result.unit,
        "ended": result.ended,
        "timed": result.timed or "the kernels of the steps",
        "compared_with": result.compared_with.racer.backend,
        "lanes": [lane_document(lane, result) for lane in result.lanes],
        "left_out": list(result.left_out),
        "cores_of_others": result.others,
    }


def lane_document(lane: Lane, result: RaceResult) -> dict[str, Any]:
    """Return one lane as plain values."""
    record, agreement, ratio = lane.racer.record, lane.agreement, result.speed_up(lane)
    return {
        "backend": lane.racer.backend,
        "variant": lane.racer.variant,
        "recorded": {"machine": record.machine, "date": record.date} if record else None,
        "place": result.ranks.index(lane) + 1 if lane.right else None,
        "seconds": lane.seconds,
        "step": {"median": lane.step.median, "q1": lane.step.q1, "q3": lane.step.q3, "n": lane.step.n},
        "times_the_winner": {
            "ratio": ratio.ratio,
            "low": ratio.low if ratio.bounded else None,
            "high": ratio.high if ratio.bounded else None,
        },
        "agreement": agreement and {"difference": agreement.difference, "tolerance": agreement.tolerance},
    }


def show(race: Race, result: RaceResult, out: Console) -> None:
    """Print a result as a table."""
    table = Table(title=f"{race.lab.TITLE}: {result.words}", title_justify="left")
    whole = "whole run" if result.timed else result.unit
    for name in ("place", "lane", "seconds", f"seconds a {whole}", "quartiles", "times the winner", "agreement"):
        table.add_column(name, overflow="fold")
    for lane in (*result.ranks, *(lane for lane in result.lanes if not lane.right)):
        record, step, ratio = lane.racer.record, lane.step, result.speed_up(lane)
        table.add_row(
            str(result.ranks.index(lane) + 1) if lane.right else "out",
            f"{record.machine}, {lane.racer.name}, recorded {record.date}" if record else lane.racer.name,
            f"{lane.seconds:.4g}",
            f"{step.median:.4g}",
            f"{step.q1:.4g} … {step.q3:.4g}",
            f"{ratio.ratio:.3g}" + (f" ({ratio.low:.3g} … {ratio.high:.3g})" if ratio.bounded else ""),
            lane.agreement.said if lane.agreement else "",
        )
    out.print(table)
    if result.ended:
        out.print(result.ended, highlight=False)
    for words in result.left_out:
        out.print(f"left out: {words}", highlight=False)
    for words in cpu_warnings(result.others):
        out.print(words, highlight=False)
