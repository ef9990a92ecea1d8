def figures():
    return ()
