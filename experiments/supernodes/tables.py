def tables(results):
    return []
