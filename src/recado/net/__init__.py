"""Machines on asyncio: the driver (``driver``), RUDP connections on one UDP socket (``udp``), SIP endpoints (``sip``).

The service, the client and the nodes of an overlay use it; the protocols themselves are machines
(``recado.protocols``). RUDP::

    endpoint = RudpEndpoint(("127.0.0.2", 0))           # binds; inside a running loop. DatagramError if it cannot
    endpoint.address -> (host, port)                    # for the SDP
    conn_id = endpoint.new_conn_id()                    # for a=rudp-conn of the own SDP
    key = new_key()                                     # for a=rudp-key: packets without its tag are not heard
    link = endpoint.open(
        remote_address, conn_id, remote_conn_id, on_message, on_failed,
        local_key=key, remote_key=remote_key, settings=profile("fast"),
    )

    link.post(message, on_done)         # at once; on_done(None) when acknowledged, on_done(error) when given up
                                        # raises LimitError, QueueFull, Unreachable (failed before, or closed)
    await link.send(message)            # waits for room and for the acknowledgement; raises Unreachable
    await link.ping()                   # returns when everything before it is acknowledged too: also a drain
    link.move(remote_address)           # the remote SDP changed, or the session was updated; revives after a failure
    link.resume()                       # the same, address unchanged
    link.close()                        # forget it; what was not acknowledged is given up
    link.failed, link.pending, link.remote_address, link.rtt_seconds, link.counters, link.inspect()

    endpoint.rebind(("127.0.0.3", 0))   # hand-over: a new socket; connections go on and retransmit from there at once
    endpoint.counters()                 # of all connections, closed ones included; endpoint.unsent, .strangers
    endpoint.close()

``on_message(bytes)`` gets whole messages in order. When a connection fails, ``on_done(error)`` is called for every
message that was not acknowledged, in the order of posting, and then ``on_failed(error)`` once. Call-backs run in the
loop and may call anything here; what they raise goes to the loop's exception handler.
"""

from __future__ import annotations

from recado.net.udp import Address, DatagramError, RudpEndpoint, RudpLink, new_key

__all__ = ["Address", "DatagramError", "RudpEndpoint", "RudpLink", "new_key"]
