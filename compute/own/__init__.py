"""Kernels of one's own: `fieldlab try FILE` asks whether they are right, and from which n on a GPU pays.

A file names its inputs and its ways with these; docs/own_kernel.md shows one.
"""

from __future__ import annotations

from compute.own.declaring import FileRefused, cuda_kernel, way, workload

__all__ = ["FileRefused", "cuda_kernel", "way", "workload"]
