"""The code behind a kernel: source, PTX, machine code (SASS) with source lines, instruction mix, registers, occupancy.

For any architecture that NVRTC knows, on machines without a GPU too: NVRTC compiles, and nvdisasm of NVIDIA's wheel, or
of a CUDA toolkit, prints. Both are in the extra `code`. For Numba's kernels on the CPU: how wide its vectors are.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path

from compute import scratch
from compute.arguments import named
from compute.cuda_source import Binary, Defines, Resources, check_cuda

INSTALL = "pip install 'fieldlab[code]'"
DISTRIBUTIONS = ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12")
TOOL_SECONDS = 60.0  # for nvdisasm, and for ptxas
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)([^;]*);")
LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
SECTION = re.compile(r"^\.text\.(\S+):")
WARP = 32
GRANULE_REGISTERS, GRANULE_SHARED = 256, 128  # registers of a warp, bytes of a block: allocated in multiples of these
REGISTERS = 65536  # of a multiprocessor, since sm_50

# What an opcode does, by the beginning of its name; the first that fits counts.
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
SHARED_ATOMICS = "ATOMS"  # begins as the atomics of global memory do
OTHER = "integer and logic"


class CodeUnavailable(RuntimeError):
    """The machine code cannot be shown here; the text says why and which line installs what is missing."""


@dataclass(frozen=True)
class Instruction:
    """One of a kernel. address: bytes from its start; opcode: with suffixes; line: of `file`, 0 if none is known."""

    address: int
    opcode: str
    operands: str
    file: str
    line: int

    @property
    def class_(self) -> str:
        """What it does: one of CLASSES, else integer and logic."""
        return class_of(self.opcode)


def class_of(opcode: str) -> str:
    """What an opcode does."""
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
        """How many instructions of each class there are, the most frequent first; none for padding behind the end."""
        return dict(Counter(one.class_ for one in self.instructions if one.opcode != "NOP").most_common())

    def by_line(self, file: str = "") -> dict[int, int]:
        """How many instructions are from each line of `file`, by default of all files together."""
        lines = (one.line for one in self.instructions if one.line and file in ("", one.file))
        return dict(sorted(Counter(lines).items()))


@dataclass(frozen=True)
class CodeView:
    """What is to be shown of a source. kernels: by name."""

    architecture: str
    source: str
    ptx: str
    kernels: Mapping[str, KernelCode]


def missing() -> str | None:
    """Why machine code cannot be shown here; None if it can."""
    absent = [name for name in ("cuda.bindings", "nvidia") if not _there(name)]
    if absent or not find_nvdisasm():
        what = "nvdisasm" if not absent else "NVRTC (cuda-bindings, nvidia-cuda-nvrtc)"
        return f"{what} is not installed; {INSTALL}"
    return None


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def find_nvdisasm() -> Path | None:
    """The program, of the wheel or of a toolkit on the path; None if there is none."""
    return find_program("nvdisasm", DISTRIBUTIONS)


def find_program(program: str, distributions: Sequence[str]) -> Path | None:
    """A program of one of the installed `distributions`, else on the path; None if there is none."""
    for name in distributions:
        try:
            found = [file for file in files(name) or () if file.name in (program, f"{program}.exe")]
        except PackageNotFoundError:
            continue
        if found:
            return Path(str(found[0].locate()))
    beside = shutil.which(program)
    return Path(beside) if beside else None


def code_view(path: Path, *, defines: Defines, architecture: str = "sm_90") -> CodeView:
    """The code of a .cu for `architecture`. Raises CodeUnavailable, or CudaSourceError with the compiler's log."""
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
    """What nvdisasm prints of a file of machine code, with source lines. Raises CodeUnavailable."""
    program = find_nvdisasm()
    if program is None:
        raise CodeUnavailable(f"nvdisasm is not installed; {INSTALL}")
    return run_tool(program, ("-g", "-c", str(cubin)), CodeUnavailable).stdout


def run_tool(program: Path, arguments: Sequence[str], unavailable: type[Exception]) -> subprocess.CompletedProcess[str]:
    """Run a program of NVIDIA's and return what it printed.

    Raises `unavailable` if it cannot be run, has not ended after TOOL_SECONDS, or refuses what it got.
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
    """The kernels of what nvdisasm prints, by name; functions that are none are left out."""
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
class Limits:
    """What a multiprocessor holds: warps, blocks, bytes of shared memory; reserved: of these, bytes a block.

    Source: CUDA C++ Programming Guide, technical specifications per compute capability.
    """

    warps: int
    blocks: int
    shared: int
    reserved: int = 1024


ARCHITECTURES = {
    "sm_75": Limits(32, 16, 64 * 1024, 0),
    "sm_80": Limits(64, 32, 164 * 1024),
    "sm_86": Limits(48, 16, 100 * 1024),
    "sm_89": Limits(48, 24, 100 * 1024),
    "sm_90": Limits(64, 32, 228 * 1024),
    "sm_100": Limits(64, 32, 228 * 1024),
    "sm_120": Limits(48, 24, 100 * 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """How full a multiprocessor is. part: of its warps; blocks: at a time; by: what allows no more."""

    part: float
    blocks: int
    by: str


def occupancy(resources: Resources, threads: int, architecture: str, dynamic_shared: int = 0) -> Occupancy:
    """Of blocks of `threads` threads. ValueError for an architecture that is not in the table, or no block."""
    limits, warps = named("architecture", architecture, ARCHITECTURES), -(-threads // WARP)
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads must be from 1 to 1024, not {threads}")
    registers = _up(max(1, resources.registers) * WARP, GRANULE_REGISTERS)
    shared = _up(resources.shared + dynamic_shared + limits.reserved, GRANULE_SHARED)
    allowed = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": REGISTERS // registers // 4 * 4 // warps,  # a quarter of the warps on each scheduler
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
    """Bits of the widest arithmetic on several real numbers at once in x86 assembly (Numba's inspect_asm); 0: none."""
    return max((REGISTER_BITS[name] for name in PACKED.findall(assembly)), default=0)
