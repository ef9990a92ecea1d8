"""The group ``recado node`` and its verbs; without a verb it runs a node."""

from __future__ import annotations

from recado.cli.node.run import run
from recado.cli.verb import verb

_HELP = """\
Three nodes, in three terminals:

  recado node run --name ana   --listen 127.0.0.1:7701
  recado node run --name bruno --listen 127.0.0.1:7702 --peer 127.0.0.1:7701
  recado node run --name carla --listen 127.0.0.1:7703 --peer 127.0.0.1:7702

And in a fourth:

  recado node subscribe --node ana 'Price < 25' --type Tick
  recado node become-publisher --node carla Tick
  recado node publish --node carla '{"type": "Tick", "Stock": "PETR4", "Price": 24.9}'
  recado node show --node bruno

--node names a node that runs on this machine, as NODE or OVERLAY/NODE; with only one running, it may be left out.
"""

app = verb("node", epilogue=_HELP)
app.default(run)
app.command(run)
app.command("recado.cli.node.use:publish", name="publish", help="Publish an event at a node.")
app.command("recado.cli.node.use:subscribe", name="subscribe", help="Subscribe at a node, and show what comes.")
app.command("recado.cli.node.use:follow", name="follow", help="Show what a kept subscription brings.")
app.command("recado.cli.node.use:unsubscribe", name="unsubscribe", help="End a subscription.")
app.command("recado.cli.node.change:become_publisher", name="become-publisher", help="Let a node publish a type.")
app.command("recado.cli.node.change:become_broker", name="become-broker", help="Let a node stop publishing a type.")
app.command("recado.cli.node.change:connect", name="connect", help="Let a node have a link to another one.")
app.command("recado.cli.node.change:stop", name="stop", help="Stop a node.")
app.command("recado.cli.node.look:show", name="show", help="Show roles, links, tables, counters and trees of a node.")
app.command("recado.cli.node.look:story", name="story", help="Tell what a node did lately, and why.")
app.command("recado.cli.node.look:peers", name="peers", help="List the links of a node.")
