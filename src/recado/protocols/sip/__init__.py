"""A SIP user agent as a machine (RFC 3261 as far as the mobility document speaks: sections 3, 4 and 6.1).

``UserAgent`` (module ``agent``) is the one thing that both sides use: the agent on a device and the broker in the
service. ``recado.net.sip`` runs it on sockets; tests run it in virtual time::

    agent = UserAgent(AgentSettings(user="sip:user1@lac.example", device="6f1c", home=Address("udp", "10.0.0.1", 5060)),
                      local=Address("udp", "10.0.0.7", 5070))
    effects = agent.handle(stimulus, now, rng)

    Received(source, data)              one datagram, or one message cut out of a stream (``messages.Framer``)
    TimerFired(timer)
    SendFailed(address)                 the transport learnt that nothing can be sent there
    Asked(Register())                   and refresh for ever; Unregister ends it
    Asked(MoveTo(local))                the device is elsewhere: REGISTER with the new and the old contact
    Asked(Invite(call, uri, media))     ``call`` is a name from ``new_name``, for all that follows
    Asked(Answer(call, media))          after ``Incoming``; or Reject(call, status)
    Asked(Reinvite(call, media))        hand-over, or "I can be reached again"
    Asked(Bye(call))                    also before it is established: CANCEL
    Asked(QueryOptions(name, uri))      ``OptionsAnswered`` tells

    Send(to, data)                      bytes to an ``Address`` (transport, host, port); a host may be a name. Over TCP:
                                        on the connection with that peer if there is one, or else on a new one
    SetTimer, CancelTimer
    Report(event)                       one of the events below

``media`` is ``sdp.Media``: where this side waits for data (host, port), its 32-bit RUDP connection id and its device.
The user agent writes the SDP and raises its version by itself.

Requests and events are in ``events``: ``Registered``, ``RegistrationFailed``, ``Unregistered``, ``Incoming(call, user,
device, remote)``, ``Progress``, ``Established(call, local, remote)``, ``Updated(call, local, remote)``,
``UpdateFailed``, ``Ended(call, reason)``, ``Failed(call, status, reason)``, ``OptionsAnswered``. ``local`` and
``remote`` are ``sdp.Session``; ``remote.media`` is where to send data. A re-INVITE of the other side is answered
without asking: an ``Updated`` tells when it is complete. After ``Ended`` or ``Failed`` the name of the call means
nothing any more.

With a ``digest.Guard`` as third argument the user agent asks every caller for credentials before it tells ``Incoming``.

What comes from the network never raises: what cannot be understood is answered with the status that fits, or ignored.
A request of this side that makes no sense (an unknown call) raises ``SipError``.

``proxy.Proxy`` is a registrar and proxy, a machine as well: one driver runs both.
"""
