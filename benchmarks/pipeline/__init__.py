"""The benchmark of the Spark pipeline: against what a Spark user would write, against the bare matcher, growth, state.

One run, the same data for all sides, in four parts. Whatever is timed was first checked to give the same pairs.
``plan`` says how much, ``run`` runs it, each part is a module (``compare``, ``kernel``, ``growth``, ``state``), and
``tables``, ``targets`` and ``figure`` make the page.
"""
