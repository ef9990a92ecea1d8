"""The service over SIP and RUDP: one SIP session is one leg of a device (the mobility document, sections 3 to 6).

``door`` joins the user agent, the RUDP socket and, if wanted, an embedded registrar; ``leg`` is one session, with the
same messages as on a WebSocket; ``people`` says who a caller is; ``places`` where data may be sent.

**Names.** The user of ``sip:ana@domain`` is called ``ana`` if the domain is that of the service's own URI
(``sip.uri``), as over HTTP and WebSocket, and ``ana@domain`` otherwise.
"""
