"""The report on a set of subscriptions: how redundant its filters are, what they ask for, and what matching did.

``redundancy``, ``hot_attributes``, ``selectivity`` and ``top`` each make one table, DataFrame in and DataFrame out;
``run_report`` makes them all and writes a folder with a page for people (``index.html``), pictures, the tables as CSV,
and ``summary.json`` for programs.
"""

from recado.pipeline.report.activity import hot_attributes, selectivity, top, top_types
from recado.pipeline.report.redundancy import redundancy
from recado.pipeline.report.run import run_report, write_report

__all__ = ["hot_attributes", "redundancy", "run_report", "selectivity", "top", "top_types", "write_report"]
