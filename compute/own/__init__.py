"""Test a user's kernels: `fieldlab try FILE` checks their results and finds the n from which a GPU pays.

The file declares its inputs and its ways with the names exported here; docs/own_kernel.md shows an example.
"""

from __future__ import annotations

from compute.ways.declaring import FileRefused, cuda_kernel, way, wgsl_kernel, workload

__all__ = ["FileRefused", "cuda_kernel", "way", "wgsl_kernel", "workload"]
