"""Measurement: one harness for `fieldlab bench`, the live readout (CPU against GPU) and the crossover lab.

One call       timing.py             Timing, Span, Sample: the duration of a call and when its parts ran
Many calls     sampling.py           the scheduler: shuffled rounds, length of a sample, Budget, the quiet core
               statistics.py         Spread, SpeedUp, Measurement, Window; when quartiles have settled
Machine        rates.py              Rate: the unit of a lab's work; caches: why a rate exceeds its roof
               roofs.py              copy bandwidth and multiply-adds, sampled in turn with the ways (RoofMeter)
               machine_roofs.py      the same in a child process, for a server
               kept_roofs.py         its results, kept for a week
               conditions.py         provenance of every record: machine, versions, conditions; Watch: other users
                                     of the machine during a bench; Sampler: the same for a page
Correctness    agreement.py          relative L2 and other differences; Agreement
A lab          benchmark.py          Benchmark: how a lab is timed; LabBenchmark: the default
               target.py             BenchmarkTarget: a second lab that the engine measures next to the live one
               rules.py              ComparisonRules: the rules of the live comparison for a lab
A bench        case.py               BenchPlan, TimedCase, Implementation, BenchmarkFixture, Row, Results
               run.py                BenchRun: checks all ways, then samples them side by side
               commands.py           `fieldlab bench`: options, progress, files
Records        records.py            records on disk (assets/timings), checked when they are read
               report.py             a bench as a record and as tables
               reasons.py            when a sentence may say "because"
               record_comparison.py  a bench compared with an older record (--compare)
               exports.py            samples as CSV, for pyperf, for Perfetto
Live           verdict.py            Variant, Standing, Verdict: the conclusion; ResultCache. The page decides
                                     what to measure (app/readout/comparison.py)
               live_record.py        the readout as files
"""
