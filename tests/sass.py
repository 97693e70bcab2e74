"""Count the instructions of a compiled CUDA source from its machine code, without a disassembler."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compute.devices.cuda_source import Defines, check_cuda

# The low nine bits of an instruction of sm_90; the bits above encode the kinds of the operands.
NAMES = {
    0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA", 0x00B: "FSETP", 0x028: "DMUL", 0x029: "DADD", 0x02B: "DFMA",
    0x02A: "DSETP", 0x010: "integer", 0x036: "integer", 0x024: "integer", 0x002: "move", 0x108: "MUFU",
}  # fmt: skip
BRANCHES = {0x147: "branch", 0x14D: "exit", 0x144: "call"}


def straight_runs(source: Path, kernel: str, *, defines: Defines) -> list[Counter[str]]:
    """Return the instructions of `kernel` for sm_90 between successive branches, counted by name."""
    code = dict(_sections(check_cuda(source, defines=defines, architecture="sm_90").cubin))[f".text.{kernel}"]
    return list(_runs(code))


def _runs(code: bytes) -> Iterator[Counter[str]]:
    run: Counter[str] = Counter()
    for low, _ in struct.iter_unpack("<QQ", code):
        name = NAMES.get(low & 0x1FF) or BRANCHES.get(low & 0x1FF, "other")
        run[name] += 1
        if name in BRANCHES.values():
            yield run
            run = Counter()


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the sections of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, number, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(number)]
    names = heads[names_at][4]
    for name, _, _, _, start, length in heads:
        begin = names + name
        yield elf[begin : elf.index(b"\0", begin)].decode(), elf[start : start + length]
