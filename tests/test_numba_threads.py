"""How many threads Numba's parallel kernels have."""

from __future__ import annotations

import numba

from compute.numba_threads import leave_a_core


def test_one_thread_is_left_to_others_where_there_are_two_and_given_back():
    everything = numba.config.NUMBA_NUM_THREADS
    try:
        leave_a_core(True)
        assert numba.get_num_threads() == max(1, everything - 1)
        leave_a_core(True)
        assert numba.get_num_threads() == max(1, everything - 1)
    finally:
        leave_a_core(False)
    assert numba.get_num_threads() == everything
