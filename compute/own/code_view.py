"""The code of a kernel: source, PTX, machine code (SASS) with source lines, instruction mix, registers, occupancy.

Works for any architecture that NVRTC supports, also on machines without a GPU: NVRTC compiles, and nvdisasm from
NVIDIA's wheel or from a CUDA toolkit prints the machine code. Both are in the extra `code`. For Numba's kernels on the
CPU: the width of their vector arithmetic.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from compute.cli.arguments import named
from compute.devices.backends import installed
from compute.devices.cuda_source import Binary, Defines, Resources, check_cuda
from compute.machine import scratch

INSTALL = "pip install 'fieldlab[code]'"
DISTRIBUTIONS = ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12")
TOOL_SECONDS = 60.0  # for nvdisasm and ptxas
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)([^;]*);")
LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
SECTION = re.compile(r"^\.text\.(\S+):")
WARP = 32
GRANULE_REGISTERS, GRANULE_SHARED = 256, 128  # allocation units: registers of a warp; bytes of a block
REGISTERS = 65536  # of a multiprocessor, since sm_50

# Classes of opcodes by prefix; the first match counts.
CLASSES = (
    ("float64", ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")),
    ("float32", ("FADD", "FMUL", "FFMA", "FSETP", "FMNMX", "FSEL", "FSET", "FCHK", "FSWZ")),
    ("half and tensor", ("HADD", "HMUL", "HFMA", "HSET", "HMNMX", "HMMA", "IMMA", "DMMA", "QGMMA", "HGMMA")),
    ("special functions", ("MUFU",)),
    ("global memory", ("LDG", "STG", "LD.", "ST.", "ATOM", "RED", "LDGSTS", "UBLKCP", "UTMALDG", "CCTL")),
    ("shared memory", ("LDS", "STS", "LDSM", "STSM", "ATOMS")),
    ("local memory", ("LDL", "STL")),
    ("constants", ("LDC", "ULDC", "LDCU")),
    ("conversion", ("F2", "I2", "FRND")),
    ("control", ("BRA", "BRX", "EXIT", "CALL", "RET", "BSSY", "BSYNC", "BAR", "WARPSYNC", "YIELD", "NANOSLEEP",
                 "DEPBAR", "MEMBAR", "ERRBAR", "BREAK", "BMOV", "NOP", "JMP", "VOTE", "KILL")),
    ("moves", ("MOV", "UMOV", "SEL", "USEL", "PRMT", "SHFL", "S2R", "S2UR", "CS2R", "R2UR", "P2R", "R2P")),
)  # fmt: skip
SHARED_ATOMICS = "ATOMS"  # has the prefix of the global memory atomics
OTHER = "integer and logic"


class CodeUnavailable(RuntimeError):
    """The machine code cannot be shown; the text states the reason and the install command."""


@dataclass(frozen=True)
class Instruction:
    """An instruction. address: bytes from the kernel's start; opcode: with suffixes; line: of `file`, 0 if unknown."""

    address: int
    opcode: str
    operands: str
    file: str
    line: int

    @property
    def class_(self) -> str:
        """Return the instruction's class."""
        return class_of(self.opcode)


def class_of(opcode: str) -> str:
    """Return the class of an opcode: a name of CLASSES, or OTHER."""
    if opcode.startswith(SHARED_ATOMICS):
        return "shared memory"
    name = opcode if "." in opcode else f"{opcode}."
    return next((kind for kind, starts in CLASSES if name.startswith(starts)), OTHER)


@dataclass(frozen=True)
class KernelCode:
    """One kernel for one architecture."""

    name: str
    instructions: tuple[Instruction, ...]
    resources: Resources

    @property
    def mix(self) -> dict[str, int]:
        """Return the number of instructions per class, the most frequent first, without NOP padding."""
        return dict(Counter(one.class_ for one in self.instructions if one.opcode != "NOP").most_common())

    def by_line(self, file: str = "") -> dict[int, int]:
        """Return the number of instructions per line of `file`, by default of all files together."""
        lines = (one.line for one in self.instructions if one.line and file in ("", one.file))
        return dict(sorted(Counter(lines).items()))


@dataclass(frozen=True)
class CodeView:
    """The code of one source. kernels: by name."""

    architecture: str
    source: str
    ptx: str
    kernels: Mapping[str, KernelCode]


def missing() -> str | None:
    """Return the reason why machine code cannot be shown, or None."""
    absent = [name for name in ("cuda.bindings", "nvidia") if not installed(name)]
    if absent or not find_nvdisasm():
        what = "nvdisasm" if not absent else "NVRTC (cuda-bindings, nvidia-cuda-nvrtc)"
        return f"{what} is not installed; {INSTALL}"
    return None


def find_nvdisasm() -> Path | None:
    """Return the path of nvdisasm, from a wheel or on the PATH; None if it is not installed."""
    return find_program("nvdisasm", DISTRIBUTIONS)


def find_program(program: str, distributions: Sequence[str]) -> Path | None:
    """Return the path of a program, from one of the `distributions` or on the PATH; None if it is not installed."""
    for name in distributions:
        try:
            found = [file for file in files(name) or () if file.name in (program, f"{program}.exe")]
        except PackageNotFoundError:
            continue
        if found:
            return Path(str(found[0].locate()))
    on_path = shutil.which(program)
    return Path(on_path) if on_path else None


def code_view(path: Path, *, defines: Defines, architecture: str = "sm_90") -> CodeView:
    """Return the code of a .cu for `architecture`. Raise CodeUnavailable, or CudaSourceError with the log."""
    if reason := missing():
        raise CodeUnavailable(reason)
    binary = check_cuda(path, defines=defines, architecture=architecture, line_numbers=True)
    kernels = dict(kernels_of_listing(_listing(binary), binary.resources))
    return CodeView(architecture, path.read_text(encoding="utf-8"), binary.ptx, kernels)


def _listing(binary: Binary) -> str:
    with scratch.lent("code") as folder:
        cubin = folder / "kernel.cubin"
        cubin.write_bytes(binary.cubin)
        return listing_of(cubin)


def listing_of(cubin: Path) -> str:
    """Return nvdisasm's listing of a cubin file, with source lines. Raise CodeUnavailable."""
    program = find_nvdisasm()
    if program is None:
        raise CodeUnavailable(f"nvdisasm is not installed; {INSTALL}")
    return run_tool(program, ("-g", "-c", str(cubin)), CodeUnavailable).stdout


def run_tool(program: Path, arguments: Sequence[str], unavailable: type[Exception]) -> subprocess.CompletedProcess[str]:
    """Run a program of NVIDIA's and return the completed process.

    Raise `unavailable` if it cannot be run, exceeds TOOL_SECONDS, or fails.
    """
    try:
        done = subprocess.run(
            [str(program), *arguments], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise unavailable(f"{program.stem} cannot be run: {error}") from error
    if done.returncode:
        raise unavailable(f"{program.stem} refuses it: {done.stderr.strip()[:300]}")
    return done


def kernels_of_listing(text: str, resources: Mapping[str, Resources]) -> Iterator[tuple[str, KernelCode]]:
    """Yield (name, code) of the kernels in nvdisasm's listing; functions absent from `resources` are left out."""
    found: list[Instruction] = []
    name, file, line = "", "", 0
    for row in text.splitlines():
        if section := SECTION.match(row):
            if name in resources:
                yield name, KernelCode(name, tuple(found), resources[name])
            name, file, line, found = section[1], "", 0, []
        elif place := LINE.search(row):
            file, line = Path(place[1]).name, int(place[2])
        elif one := INSTRUCTION.search(row):
            found.append(Instruction(int(one[1], 16), one[2], one[3].strip(), file, line))
    if name in resources:
        yield name, KernelCode(name, tuple(found), resources[name])


# -- occupancy


@dataclass(frozen=True)
class ProcessorLimits:
    """Capacity of a multiprocessor: warps, blocks, bytes of shared memory; reserved: bytes of shared memory per block.

    Source: CUDA C++ Programming Guide, technical specifications per compute capability.
    """

    warps: int
    blocks: int
    shared: int
    reserved: int = 1024


ARCHITECTURES = {
    "sm_75": ProcessorLimits(32, 16, 64 * 1024, 0),
    "sm_80": ProcessorLimits(64, 32, 164 * 1024),
    "sm_86": ProcessorLimits(48, 16, 100 * 1024),
    "sm_89": ProcessorLimits(48, 24, 100 * 1024),
    "sm_90": ProcessorLimits(64, 32, 228 * 1024),
    "sm_100": ProcessorLimits(64, 32, 228 * 1024),
    "sm_120": ProcessorLimits(48, 24, 100 * 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """Occupancy of a multiprocessor. part: fraction of its warps; blocks: resident; by: the limiting resource."""

    part: float
    blocks: int
    by: str


def occupancy(resources: Resources, threads: int, architecture: str) -> Occupancy:
    """Return the occupancy for blocks of `threads` threads. Raise ValueError for unknown architectures and sizes."""
    limits, warps = named("architecture", architecture, ARCHITECTURES), -(-threads // WARP)
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads must be from 1 to 1024, not {threads}")
    registers = _up(max(1, resources.registers) * WARP, GRANULE_REGISTERS)
    shared = _up(resources.shared + limits.reserved, GRANULE_SHARED)
    allowed = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": REGISTERS // registers // 4 * 4 // warps,  # a quarter of the warps per scheduler
        "shared memory": limits.shared // shared if shared else limits.blocks,
    }
    by = min(allowed, key=lambda name: allowed[name])
    return Occupancy(allowed[by] * warps / limits.warps, allowed[by], by)


def _up(count: int, granule: int) -> int:
    return -(-count // granule) * granule


# -- Numba on the CPU

REGISTER_BITS = {"xmm": 128, "ymm": 256, "zmm": 512}
PACKED = re.compile(r"^\s+v?(?:add|sub|mul|div|sqrt|max|min|fn?m(?:add|sub)\d+)p[sd]\s.*%?([xyz]mm)\d+", re.MULTILINE)


def vector_bits(assembly: str) -> int:
    """Return the bits of the widest vector arithmetic in x86 assembly (Numba's inspect_asm); 0 for none."""
    return max((REGISTER_BITS[name] for name in PACKED.findall(assembly)), default=0)
