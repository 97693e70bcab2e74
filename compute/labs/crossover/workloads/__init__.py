"""One folder for each workload, one file for each way to write it. To add one, add the folder or the file.

A folder `name/` holds README.md and an __init__.py with

TITLE, CHAPTER (its place in a lecture), CALL (the function of every way), SIZES (least and largest n worth drawing),
COUNTED (what n counts), SETTINGS (values allowed by name, the default first), ON ("device": arrays are given where the
way computes, "host": in main memory), TOLERANCE (by dtype), CITED (figures of others, with their source),
`inputs(n, dtype, rng)` (arrays and plain numbers), `outputs(n, dtype)` (arrays like the results; none if an input is
changed in place), `work(n, dtype)`, `reference(*inputs)` (the right results, by another method where there is one) and
`difference(results, reference)`. `inputs`, `outputs` and `work` take the settings as keywords.

A way is a file `<ecosystem>[_<what is special>].py`. Its function CALL takes the inputs and then the outputs, and
fills these, or returns new results where its library does that (then arrays on the device, one or a tuple). It does
not wait for the device, except where ON is "host": there the results are in main memory when it returns. Before it is
timed, `prepare`, where the file has one, is called with the same arguments and returns those to use instead, in the
same order; it may append some. A way that does other work than its workload asks for has a `work(n, dtype)` of its own.
"""
