"""The files that the typed equations become, one or more for each backend, for the panel with the code that runs."""

from __future__ import annotations

from functools import lru_cache

from compute.devices import wgsl
from compute.labs.equations import Equations
from compute.labs.equations.gpu_wgpu import PRODUCTS
from compute.labs.equations.kept import stored
from compute.labs.equations.lab import FORM_OF
from compute.labs.equations.programs import program_of
from compute.own.code_files import CodeFile

SUFFIXES = {"cuda": ".cu", "wgsl": ".wgsl"}  # ".py" for the others


@lru_cache(maxsize=16)
def generated_files(text: str, dtype: str) -> tuple[CodeFile, ...]:
    """Return the files of a valid text in all backends. WGSL is in float32 whatever the dtype."""
    program, found = program_of(text), []
    for backend in Equations.backends():
        form = FORM_OF[backend.name]
        sources = program.sources(form, dtype if dtype in backend.dtypes else backend.dtypes[0])
        for number, source in enumerate(sources, 1):
            path = stored(source, SUFFIXES.get(form, ".py"))
            own = (("variant", "one-step"),) if form == "numba" else ()
            title = f"{backend.label}, pass {number} of {len(sources)}" if len(sources) > 1 else backend.label
            file = CodeFile(title, path, backend, Equations.LAB, values=(("text", text), *own))
            found.append(file)
            if form == "wgsl":
                found.append(file.compiled(wgsl.WgslProgram(path, exact=PRODUCTS)))
        if form == "numba" and program.cache_tiling(dtype) is not None:
            path, values = stored(program.steps_source(form, dtype)), (("text", text), ("variant", "T-step"))
            found.append(CodeFile(f"{backend.label}, in tiles", path, backend, Equations.LAB, values=values))
    return tuple(found)
