"""From a field of numbers to one that can be coloured: equalising, distance, averages; one file per backend."""
