"""What must be true of all tables together: the plain, global view that no node has.

For each subscription the publishers within its reach follow from the graph and the roles alone, and with them what a
right set of rows looks like (properties P1, P2, P3, P7 and P8 of the tree document, T1 and T2). Which of several
trees was built depends on delays; on a graph without cycles there is one, and ``only_rows`` computes it.
"""

from recado.protocols.trees.table import speaks_of


class WrongError(AssertionError):
    """A property does not hold."""


def require(truth, *what):
    if not truth:
        raise WrongError(" ".join(map(str, what)))


def reach(views, start):
    """The nodes connected with ``start``, as the neighbours know it."""
    found, waiting = {start: None}, [start]
    while waiting:
        for other in views[waiting.pop()]["neighbours"]:
            if other in views and other not in found:
                found[other] = None
                waiting.append(other)
    return found


def publishers_for(views, root, type):
    return [node for node in reach(views, root) if any(speaks_of(type, one) for one in views[node]["publishes"])]


def rows_of(views):
    """Subscription to node to row."""
    rows = {}
    for node, view in views.items():
        for table in view["tables"].values():
            for id, row in table.items():
                require(node not in rows.setdefault(id, {}), node, "has two rows of", id)
                rows[id][node] = row
    return rows


def trees(views):
    """Subscriptions that have a tree of their own: id to root and type."""
    return {
        id: (node, own["type"])
        for node, view in views.items()
        for id, own in view["subscriptions"].items()
        if own["carrier"] is None
    }


def check(views, *, trees_only=True):
    """Every property of the tables of live nodes at rest; ``trees_only`` demands P3, which only grafting keeps."""
    for node, view in views.items():
        for other in view["neighbours"]:
            require(node in views[other]["neighbours"], node, "has a link to", other, "that has none back")
        counters = view["counters"]
        require(counters["questions"] == 0, node, "still has", counters["questions"], "questions")
        require(counters["waiting"] == 0, node, "still holds back notifications")
    rows, wanted = rows_of(views), trees(views)
    for id, by_node in rows.items():
        require(id in wanted, "rows remain of", id, "at", list(by_node))  # P7
    for id, (root, type) in wanted.items():
        found = rows.get(id, {})
        _check_tree(views, id, root, found, publishers_for(views, root, type))
        if trees_only:
            for node in found:  # P3
                _climb(id, root, found, node)


def _check_tree(views, id, root, rows, publishers):
    if not publishers:
        require(not rows, id, "has rows but no publisher:", rows)  # P8
        return
    require(root in rows and rows[root]["next"] == [root], id, "has no row at its root", root, rows)
    for node, row in rows.items():
        require(row["next"], id, "leads nowhere from", node)
        require(row["origin"] or row.get("rides"), id, "comes from nowhere at", node)  # T2
        require((node in row["origin"]) == (node in publishers), id, "at", node, "is wrong about its publishing:", row)
        for other in [*row["next"], *row["origin"]]:
            require(other == node or other in views[node]["neighbours"], id, "at", node, "names a stranger", other)
        for other in row["next"]:  # P2
            require(other == node or node in rows.get(other, {"origin": ()})["origin"], id, node, "->", other, rows)
        for other in row["origin"]:
            require(other == node or node in rows.get(other, {"next": ()})["next"], id, other, "<-", node, rows)
    if any("rides" in row for row in rows.values()):
        require(all("rides" in row for row in rows.values()), id, "has joined a tree with some of its rows only", rows)
        for node, row in rows.items():
            known = any(row["rides"] in table for table in views[node]["tables"].values())
            require(row["rides"] is None or known, id, "rides on nothing at", node)
        return  # its publishers are those of the tree that it joined; what that brings is seen when they publish
    for node in publishers:  # P1
        require(node in rows, id, "does not know publisher", node)


def _climb(id, root, rows, node):
    passed = []
    while node != root:
        require(node not in passed, id, "goes in a circle:", passed)
        require(len(rows[node]["next"]) == 1, id, "has several ways from", node)
        passed.append(node)
        node = rows[node]["next"][0]


def only_rows(topology, root, publishers):
    """The rows of a subscription on a graph without cycles: node to (next, origin), both sorted."""
    toward = {root: root}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for other in topology.neighbours(node):
            if other not in toward:
                toward[other] = node
                waiting.append(other)
    rows = {}
    for node in publishers:
        origin = node
        while True:
            known = node in rows
            rows.setdefault(node, (toward[node], []))[1].append(origin)
            if node == root or known:
                break
            origin, node = node, toward[node]
    return {node: ([toward], sorted(set(origin))) for node, (toward, origin) in rows.items()}


def receivers(views, publisher, event, matches):
    """Who must be told of an event: subscription to node."""
    return {
        id: node
        for node in reach(views, publisher)
        for id, own in views[node]["subscriptions"].items()
        if speaks_of(own["type"], event.type) and matches(own["filter"], event)
    }
