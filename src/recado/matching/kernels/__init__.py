"""The machine code of the index: functions over flat arrays that numba compiles, and how they are compiled and kept."""
