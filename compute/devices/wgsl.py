"""Compiles WGSL files and texts to kernels for a GPU of WebGPU.

The arguments of a kernel are the arrays bound in its file, in the order of their bindings, and the members of its
`struct Numbers`. The last member is always `zero: u32`; it is 0 at run time, which a compiler cannot know. This keeps
roundings exact where WGSL permits compilers to fuse and rearrange operations: `product(a, b)` is fma(a, b, -0), which
cannot be fused with a following sum; `exact(x)` and `kept(x)` return x exclusive-or `zero`, so that a product, or a
difference, is neither fused nor rearranged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from compute.devices.builds import building
from compute.devices.webgpu_passes import WORD, Gpu, Storage, WgpuArray

Numbers = NDArray[np.uint32] | NDArray[np.int32] | NDArray[np.float32]
MOST_GROUPS = 65535  # of one dimension
BINDING = re.compile(r"@group\(0\) @binding\((\d+)\) var<storage, (read|read_write)>")
VECTORS = re.compile(r"@binding\((\d+)\) var<storage, \w+> \w+: array<vec")  # can read beyond the last word
NUMBERS = re.compile(r"struct Numbers \{([^}]*)\}")
MOST_GENERATED = 64  # cached kernels of programs without a file, per GPU
INLINE = Path("inline.wgsl")  # stands for a program without a file in error messages
INCLUDE = re.compile(r'^#include "(\w+)\.wgsl"$', re.MULTILINE)  # a file in the folder of this module
LOOP = re.compile(r"/\*unroll\*/\s*for \(var (\w+) = (\d+); \1 < (\d+)(?: \+ (\d+))?; \1\+\+\) \{")


class WgslError(RuntimeError):
    """A .wgsl file was refused; the message contains the compiler's log."""


ARRAY = re.compile(r"/\*registers\*/ var (\w+): array<(?:array<(\w+), ([\d +]+)>|(\w+)), ([\d +]+)>;")


@dataclass(frozen=True)
class WgslProgram:
    """A .wgsl file or text, with values for its upper-case names.

    defines: (name, value) pairs; exact: which roundings are kept: 0 none (the compiler may fuse and rearrange),
    1 products, 2 also differences; code: the text of a program without a file.
    """

    path: Path
    defines: tuple[tuple[str, int | float | str], ...] = ()
    exact: int = 1
    code: str = ""

    @property
    def text(self) -> str:
        """The text to compile: with included files, values of the names, and the functions that keep roundings."""
        text = self._defined(self.code or self.path.read_text(encoding="utf-8"))
        text = self._defined(INCLUDE.sub(_included, text))
        same = "bitcast<f32>(bitcast<u32>(x) ^ p.zero)"
        functions = (
            ("exact", "x: f32", same if self.exact >= 1 else "x"),
            ("kept", "x: f32", same if self.exact >= 2 else "x"),
            ("product", "a: f32, b: f32", "fma(a, b, bitcast<f32>(p.zero | 0x80000000u))" if self.exact else "a * b"),
        )
        for name, parameters, value in functions:
            if f"fn {name}(" not in text:  # a file may have a function of that name
                text += f"\nfn {name}({parameters}) -> f32 {{ return {value}; }}\n"
        return in_registers(unroll(text))

    @property
    def included(self) -> list[Path]:
        """The files that the program includes."""
        return [_file(name) for name in INCLUDE.findall(self._defined(self.code or self.path.read_text("utf-8")))]

    def _defined(self, text: str) -> str:
        for name, value in self.defines:
            text = re.sub(rf"\b{name}\b", str(value), text)
        return text


def program(code: str, exact: int = 0) -> WgslProgram:
    """Return the program of a text; by default the compiler may choose the roundings."""
    return WgslProgram(INLINE, exact=exact, code=code)


def _file(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.wgsl")


def _included(found: re.Match[str]) -> str:
    return _file(found[1]).read_text(encoding="utf-8")


def unroll(text: str) -> str:
    """Write out the loops marked /*unroll*/, with their counter as a number.

    Drivers do not unroll the loops that wgpu generates, and arrays with a variable index leave the registers.
    """
    while found := LOOP.search(text):
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        body = text[found.end() : end - 1]
        turns = (
            re.sub(rf"\b{found[1]}\b", str(k), body) for k in range(int(found[2]), int(found[3]) + int(found[4] or 0))
        )
        before = text[: found.start()]
        indent = re.sub(r"\S.*", "", before.rpartition("\n")[2])
        text = before + f"\n{indent}".join("{" + turn + "}" for turn in turns) + text[end:]
    return text


def in_registers(text: str) -> str:
    """Replace each one- or two-dimensional array marked /*registers*/ by a variable per element, initially 0.

    Drivers keep a function's array in memory if it is assigned in a branch or copied as a whole. All indices must be
    sums of integers, as in unrolled loops.
    """
    while found := ARRAY.search(text):
        name, rows, columns = found[1], _sum(found[5]), _sum(found[3] or "")
        indices = [f"{i}_{j}" for i in range(rows) for j in range(columns)] or [str(i) for i in range(rows)]
        variables = " ".join(f"var {name}_{each} = {found[2] or found[4]}();" for each in indices)
        end = text.index("\n}", found.end())  # of the function
        element = rf"\b{name}" + r"\[([\d +-]+)\]" * (2 if columns else 1)
        body = re.sub(element, partial(_variable, name), text[found.end() : end])
        text = text[: found.start()] + variables + body + text[end:]
    return text


def _variable(name: str, found: re.Match[str]) -> str:
    return "_".join([name, *(str(_sum(index)) for index in found.groups())])


def _sum(expression: str) -> int:
    """Return the value of a sum of numbers."""
    return sum(int(number) for number in re.findall(r"[+-]?\d+", expression.replace(" ", "")))


class Kernel:
    """An entry point of a program, compiled for a GPU."""

    def __init__(self, gpu: Gpu, program: WgslProgram, name: str) -> None:
        import wgpu

        text = program.text
        self._gpu, self._name = gpu, f"{name} of {program.path.name}"
        self._bindings = [kind for _, kind in sorted({(int(number), kind) for number, kind in BINDING.findall(text)})]
        self._vectors = frozenset(map(int, VECTORS.findall(text)))
        found = NUMBERS.search(text)
        self._count = found[1].count(":") if found else 0
        kinds = {"read": "read-only-storage", "read_write": "storage"}
        stage = wgpu.ShaderStage.COMPUTE
        entries = [
            {"binding": k, "visibility": stage, "buffer": {"type": kinds[kind]}}
            for k, kind in enumerate(self._bindings)
        ]
        device = gpu.device
        with building(f"{program.path.parent.name}.{program.path.name}"):
            try:
                self._layout = device.create_bind_group_layout(entries=entries)
                layout = device.create_pipeline_layout(
                    bind_group_layouts=[self._layout], immediate_size=4 * self._count
                )
                module = device.create_shader_module(code=text)
                self._pipeline = device.create_compute_pipeline(
                    layout=layout, compute={"module": module, "entry_point": name}
                )
            except wgpu.GPUError as error:
                raise WgslError(f"{program.path.name} with {dict(program.defines)}, {name}:\n{error}") from error

    def release(self) -> None:
        """Drop the bind groups of this kernel, which are stored under the identity of its layout."""
        groups = self._gpu.groups
        for key in [key for key in groups if key[0] == id(self._layout)]:
            del groups[key]

    def __call__(self, grid: Sequence[int], arrays: Sequence[Storage], *numbers: np.generic | Numbers) -> None:
        """Launch `grid` workgroups on arrays, in the order of the bindings, with 32-bit numbers or arrays of those."""
        packed = b"".join([each.tobytes() for each in numbers])
        if len(packed) != WORD * max(self._count - 1, 0):
            raise ValueError(f"{self._name} needs {self._count - 1} numbers, not {len(packed) // WORD}")
        padded = [*arrays, *map(self._gpu.padding, range(len(arrays), len(self._bindings)))]
        zero = bytes(WORD) if self._count else b""
        self._gpu.launch(self._pipeline, self._layout, grid, padded, packed + zero, self._vectors)


def kernel(gpu: Gpu, program: WgslProgram, name: str) -> Kernel:
    """Return a kernel of `program`, compiled at its first use on this GPU. Raises WgslError with the log."""
    key = program, name
    if key not in gpu.kernels:
        gpu.kernels[key] = Kernel(gpu, program, name)
        generated = [other for other in gpu.kernels if other[0].code]  # the oldest first
        for other in generated[:-MOST_GENERATED]:
            gpu.kernels.pop(other).release()
    found: Kernel = gpu.kernels[key]
    return found


def launch(
    program: WgslProgram, name: str, grid: Sequence[int], arrays: Sequence[WgpuArray], *numbers: np.generic
) -> None:
    """Launch a kernel of `program` on the GPU of its first array; the arrays must be whole buffers."""
    if any(each.offset for each in arrays):
        raise ValueError(f"{name} of {program.path.name} needs whole arrays, not parts")
    kernel(arrays[0].gpu, program, name)(grid, [each.storage for each in arrays], *numbers)


def folded(groups: int) -> tuple[int, int]:
    """Return a grid of at least `groups` workgroups in two dimensions, each within WebGPU's limit.

    In a kernel with workgroup_size(256): k = id.y * 65535 * 256 + id.x, where id is the global_invocation_id.
    """
    return min(groups, MOST_GROUPS), -(-groups // MOST_GROUPS)
