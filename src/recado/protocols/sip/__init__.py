"""A SIP user agent without input and output (RFC 3261 as far as the mobility document speaks: sections 3, 4 and 6.1).

``UserAgent`` (module ``agent``) is the one thing that both sides use: the agent on a device and the broker in the
service. It reads no clock and opens no socket. Whoever drives it calls::

    agent = UserAgent(AgentSettings(user="sip:user1@lac.example", device="6f1c", home=Address("udp", "10.0.0.1", 5060)),
                      local=Address("udp", "10.0.0.7", 5070))

    agent.receive(data, source, now, rng)       one datagram, or one message cut out of a stream (``stream.Framer``)
    agent.tick(now, rng)                        time has passed: at ``agent.deadline()`` or later; oftener is harmless
    agent.unreachable(address, now, rng)        the transport learnt that nothing can be sent there

    agent.register(now, rng)                    and refresh for ever; ``unregister`` ends it
    agent.moved(local, now, rng)                the device is elsewhere: REGISTER with the new and the old contact
    call = agent.invite(uri, media, now, rng)   -> the name of the call, for all that follows
    agent.answer(call, media, now, rng)         after ``Incoming``; or agent.reject(call, status, now, rng)
    agent.reinvite(call, media, now, rng)       hand-over, or "I can be reached again"
    agent.bye(call, now, rng)                   also before it is established: CANCEL
    agent.options(uri, now, rng)                -> a name; ``OptionsAnswered`` tells

    for effect in agent.take(): ...             in this order, after every call above
        Transmit(data, to, why)                 bytes to an ``Address`` (transport, host, port); a host may be a name
        Report(fact)                            fact is one of the events below
    agent.deadline()                            when ``tick`` is due, or None

``media`` is ``sdp.Media``: where this side waits for data (host, port), its 32-bit RUDP connection id and its device.
The user agent writes the SDP and raises its version by itself.

Events (module ``events``): ``Registered``, ``RegistrationFailed``, ``Unregistered``, ``Incoming(call, user, device,
remote)``, ``Progress``, ``Established(call, local, remote)``, ``Updated(call, local, remote)``, ``UpdateFailed``,
``Ended(call, reason)``, ``Failed(call, status, reason)``, ``OptionsAnswered``. ``local`` and ``remote`` are
``sdp.Session``; ``remote.media`` is where to send data. A re-INVITE of the other side is answered without asking: an
``Updated`` tells when it is complete. After ``Ended`` or ``Failed`` the name of the call means nothing any more.

With a ``digest.Guard`` as third argument the user agent asks every caller for credentials before it tells ``Incoming``.

No input raises: what cannot be understood is answered with the status that fits, or ignored. A request of this side
that makes no sense (an unknown call) raises ``SipError`` and changes nothing.

``proxy.Proxy`` is a registrar and proxy with the same face (receive, tick, take, deadline): one driver runs both.
"""
