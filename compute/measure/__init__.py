"""Measuring: one harness behind `fieldlab bench`, the live readout (CPU against GPU) and the crossover lab.

One call       timing.py             Timing, Span, Sample: what a call took, and when its parts ran
Many calls     sampling.py           how long a sample is, shuffled rounds, the quiet core; Deadline
               statistics.py         Spread, SpeedUp, Measurement, Window; when quartiles have settled
The machine    rates.py              Rate: what a lab counts; caches: why a rate lies above its roof
               roofs.py              copy bandwidth and multiply-adds, measured in turn with the rest (RoofMeter)
               machine_roofs.py      the same in a child process, for a server
               kept_roofs.py         what it found, kept for a week
               conditions.py         what every record says of where, with what and under which conditions;
                                     Watch: who else used the machine during a bench; Sampler: for the page
Right or not   agreement.py          relative L2 and its like; Agreement
A lab          benchmark.py          Benchmark: what is timed of a lab; LabBenchmark: of one that says nothing
               target.py             BenchmarkTarget: a second lab that the engine measures beside the live one
               rules.py              ComparisonRules: what the live comparison must know of a lab
A bench        case.py               BenchPlan, TimedCase, Implementation, BenchmarkFixture, Row, Results
               run.py                BenchRun: checked, then sampled side by side
               commands.py           `fieldlab bench`: options, progress, files
What is kept   records.py            records on disk (assets/timings), checked when they are read
               report.py             a bench as a record and as tables
               reasons.py            when a sentence may say "because"
               record_comparison.py  a bench beside an older record (--compare)
               exports.py            samples as CSV, for pyperf, for Perfetto
Live           verdict.py            Variant, Standing, Verdict: what may be said; ResultCache
               comparison.py         Comparison: which variant to ask for what next
               live_record.py        what the readout showed, as files
"""
