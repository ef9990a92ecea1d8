"""The session machines in simulation: devices that move and lose coverage, and a broker that may crash.

The parts are those that run live: the agent (``recado.protocols.session.agent``), RUDP (``recado.protocols.rudp``) and
the broker (``recado.broker``). What is simulated is the network with its addresses (``wire``), the signalling that
opens and updates a session, reduced to INVITE, 200 and ACK, and the disk (``disk``).
"""
