"""One folder per workload. To add a workload, add a folder; to add a way, add a function to a file of the folder.

A folder `name/` contains README.md and an __init__.py that declares the workload: the function that returns its inputs,
with `@workload(…)` of `compute.ways.declaring`. `inputs`, `outputs` and `work` receive the settings as keywords.

A way is a function with `@way("<ecosystem>[_<variant>]")` in another file of the folder. The ways of a file need the
same libraries: the file is imported when one of them runs. The function receives the inputs and then the outputs; it
fills the outputs, or returns new results if its library requires that (arrays on the device, one or a tuple). It does
not wait for the device, unless the workload is `on` the host: then the results must be in main memory when it returns.
`prepare` is called before the timing with the same arguments and returns the arguments to use instead, in the same
order, possibly followed by more. If a way does other work than the least work of its workload, `work` counts it. When a
change makes a way faster or slower by more than the noise, raise its `revision` (1 by default): its recorded curves are
then excluded from comparisons.
"""
