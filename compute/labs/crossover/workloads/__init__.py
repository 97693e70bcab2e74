"""One folder for each workload, one file for each way to write it. To add one, add the folder or the file.

A folder `name/` holds README.md and an __init__.py with WORKLOAD, a `compute.labs.crossover.workload.Workload`. Its
`inputs`, `outputs` and `work` take the settings as keywords.

A way is a file `<ecosystem>[_<what is special>].py`. Its function, named by the workload's `call`, takes the inputs and
then the outputs, and fills these, or returns new results where its library does that (then arrays on the device, one or
a tuple). It does not wait for the device, except where the workload is `on` the host: there the results are in main
memory when it returns. Before it is timed, `prepare`, where the file has one, is called with the same arguments and
returns those to use instead, in the same order; it may append some. A way that does other work than its workload asks
for has a `work(n, dtype)` of its own. When a change makes a way faster or slower by more than the noise, raise the
number REVISION in its file (1 where there is none): its recorded curves are then no longer compared with others.
"""
