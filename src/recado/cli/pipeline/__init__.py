"""``recado pipeline``: the jobs on Spark. One module a job; ``spark`` has what they share."""
