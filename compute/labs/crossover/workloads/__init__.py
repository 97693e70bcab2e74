"""One folder per workload, one file per way to write it. To add one, add the folder or the file.

A folder `name/` contains README.md and an __init__.py with WORKLOAD, a `compute.ways.workload.Workload`. Its
`inputs`, `outputs` and `work` receive the settings as keywords.

A way is a file `<ecosystem>[_<variant>].py`. Its function, named by the workload's `call`, receives the inputs and then
the outputs; it fills the outputs, or returns new results if its library requires that (arrays on the device, one or a
tuple). It does not wait for the device, unless the workload is `on` the host: then the results must be in main memory
when it returns. If the file has a function `prepare`, it is called before the timing with the same arguments and
returns the arguments to use instead, in the same order, possibly followed by more. If a way does other work than the
least work of its workload, its file defines `work(n, dtype)`. When a change makes a way faster or slower by more than
the noise, raise the number REVISION in its file (1 if absent): its recorded curves are then excluded from comparisons.
"""
