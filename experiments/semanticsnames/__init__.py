"""Names from public vocabularies: how often the measures are right about them, before and after the vetoes."""
