"""One workload in several ways: what the crossover lab and `fieldlab try` share. It imports neither of them.

A workload is a function of n with `@workload(…)` that returns the inputs; a way is a function with `@way(…)` that
computes the results, in the library that its name begins with.

* Format: `declaring` defines the decorators and executes a user's file; `source` reads ways without executing them;
  `workload` describes a workload, its ways and a `Case` at one n; `ecosystems` are the libraries; `catalogue` lists the
  built-in workloads and the user's (`opened`).
* Check: `comparing` decides whether results agree, and chooses awkward inputs.
* Times: `runner` runs one way at one n; `plan` and `sweep` measure all ways at many n, with large arrays for one sweep
  at a time (`arrays`); `recorded` reads the times of earlier runs.
* Conclusions: `crossing` finds the n at which one curve of times falls below another; `finding` states which side wins
  from which n on; `roofline` compares times with the limits of the device.
"""

from __future__ import annotations
