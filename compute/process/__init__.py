"""Child processes: one way to start, supervise and reuse an interpreter that works for this one.

The engine of a device, the jobs of exports and races, the workers of a film and the trial runs of a user's file are all
ChildProcesses (child.py): fresh interpreters, never forks, connected by a Channel (channel.py), which carries pickled
messages and file descriptors. A Watchdog (watchdog.py) decides when a silent or slow one counts as lost; a SparePool
keeps idle ones. Most children run tasks one after the other (tasks.py); an engine has its own loop
(compute/engine/worker.py).

No child outlives its parent: its channel ends, and it exits. A child in an endless computation cannot notice that, so
an engine is also killed by the kernel (`die_with_parent`), and a child that runs tasks listens in a separate thread.
"""
