"""The live radio: sensor nodes as processes of this machine, and a medium between them that stands for the air.

``recado radio`` does all of it from a command line. ``scene`` is what a scene file says; ``datagrams`` is what nodes
and medium say to each other; ``medium`` and ``node`` are the two kinds of processes, ``control`` the socket by which
programs use them, ``launch`` what starts and stops all of a scene, ``client`` the other end of the sockets.
``gateway`` joins a node with an event service.
"""
