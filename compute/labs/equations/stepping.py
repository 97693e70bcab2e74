"""Time steps of a program on any device: which arrays each pass reads and writes, and the numbers that it gets.

A backend supplies the function that launches one pass. Arrays change roles instead of being copied: a pass writes a
spare array, which becomes the current one of its name, and the replaced one becomes spare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.devices import Array, Device
from compute.labs.equations.forms import Program
from compute.labs.equations.passes import picture
from compute.labs.equations.tree import Plan, Stage, System

Launch = Callable[[int, Sequence[Array], Sequence[Array], Sequence["np.floating[Any]"]], None]


@dataclass
class State:
    """The arrays (ny, nx) of a simulation on a device, of one float dtype, and its time.

    now: the current arrays by name: fields, auxiliary arrays, and `wall`; spare: by field, arrays to write to.
    """

    now: dict[str, Array]
    spare: dict[str, list[Array]]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    t: float = 0.0


def begin(device: Device, program: Program, initial: Mapping[str, NDArray[Any]]) -> State:
    """Return a new state on a device. initial: (ny, nx) arrays of one float dtype, all fields, and `wall` if read."""
    system, plan = program.system, program.plan
    first = initial[system.fields[0]]
    shape, dtype = (int(first.shape[0]), int(first.shape[1])), first.dtype
    now = {name: device.upload(host) for name, host in initial.items()}
    now |= {name: device.allocate(shape, dtype) for name in plan.auxiliary}
    copies = 2 if plan.from_start else 1  # of rk3: the fields at the start of a step are kept until its end
    spare = {name: [device.allocate(shape, dtype) for _ in range(copies)] for name in system.fields}
    return State(now, spare, shape, dtype)


def picture_program(system: System) -> Program | None:
    """Return the program that computes the second picture to the array `show`; None for a text without `show =`.

    Its arrays are added to a state by `extend`, and a step of it with dt = 0 computes them from the current fields.
    """
    passes = tuple(picture(system))
    arrays = tuple(dict.fromkeys(target for each in passes for target in each.targets))
    return Program(system, Plan(passes, (Stage(),), arrays, from_start=False)) if passes else None


def extend(device: Device, state: State, program: Program) -> None:
    """Add the auxiliary arrays of another program of the same system to a state."""
    for name in program.plan.auxiliary:
        if name not in state.now:
            state.now[name] = device.allocate(state.shape, state.dtype)


def advance(
    program: Program,
    launch: Launch,
    state: State,
    numbers: Mapping[str, float],
    dt: float,
    steps: int,
    together: int = 1,
) -> None:
    """Advance `steps` steps of dt. numbers: the value of each parameter. together: the steps that a launch computes.

    launch(k, read, written, scalars) computes pass k of the plan; the scalars have the dtype of the arrays.
    """
    system, plan = program.system, program.plan
    ny, nx = state.shape
    values = {**numbers, "dt": dt, "Lx": nx * system.dx, "Ly": ny * system.dx}
    for _ in range(steps // together):
        start = {f"{name}_start": state.now[name] for name in system.fields} if plan.from_start else {}
        for stage in plan.stages:
            values |= {"t": state.t + stage.when * dt, "keep": stage.keep, "take": stage.take}
            for k, each in enumerate(plan.passes):
                arrays = state.now | start
                written = [arrays[name] if name in plan.auxiliary else state.spare[name].pop() for name in each.targets]
                scalars = [state.dtype.type(values[name]) for name in each.numbers]
                launch(k, [arrays[name] for name in each.sources], written, scalars)
                for name, array in zip(each.targets, written, strict=True):
                    replaced, state.now[name] = state.now[name], array
                    if replaced is not array and replaced is not start.get(f"{name}_start"):
                        state.spare[name].append(replaced)
        for name in system.fields if start else ():
            state.spare[name].append(start[f"{name}_start"])
        state.t += together * dt
