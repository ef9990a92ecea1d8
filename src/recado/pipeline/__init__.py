"""Everything Spark: the same filters and the same index, inside executors, on Arrow batches.

Each job is a function from DataFrames to a DataFrame (``match``, ``match_partitioned``, ``constrain``, the report's
tables, ``frequencies``); the command line adds reading, writing and a session. This is the only room that imports
PySpark, and nothing else imports it until a Spark job is asked for.
"""
