"""One workload in several ways: the format that the crossover lab and `fieldlab try` share.

A workload is a function of n with `@workload(…)` that returns the inputs; a way is a function with `@way(…)` that
computes the results, in the library that its name begins with (`ecosystems`). `declaring` defines the decorators and
executes a user's file; `workload` describes a workload, its ways and a `Case` at one n; `catalogue` lists the built-in
workloads and the user's. `comparing` decides whether results agree; `crossing` finds the n at which one curve of times
falls below another; `roofline` compares times with the limits of the device.
"""

from __future__ import annotations
