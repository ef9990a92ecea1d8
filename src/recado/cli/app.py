"""The command ``recado``: its verbs, its exit codes, and nothing that is slow to import.

Verbs are registered by import path, so ``recado --help`` loads neither numba nor pyarrow. A verb returns its exit code
or None: 0 ok, 1 failed (or "no"), 2 bad usage or bad input, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError

from recado import __version__
from recado.cli.verb import BAD_INPUT, FAILED, INTERRUPTED, OK, verb
from recado.errors import RecadoError

_HELP = """\
Content-based publish/subscribe: say what happened, say what you care about.

To begin with:

  recado demo                                       a sample, matched and shown
  recado match subscriptions.ndjson events.ndjson   who cares about what
  recado filter check 'Price < 25 and Stock in {"PETR4", "VALE3"}'
  recado filter covers 'Price < 30' 'Price < 25'    exit code 0 for yes

On a terminal the output is for people; in a pipe, or with --json, it is one JSON object a line.
"""

app = verb("recado", help=_HELP, version=__version__)
app.command("recado.cli.demo:app", name="demo", help="Match the sample that Recado ships and show the result.")
app.command("recado.cli.match:app", name="match", help="Match a file of events against a file of subscriptions.")
app.command("recado.cli.filter:app", name="filter", help="Check, explain and compare filters.")
app.command("recado.cli.serve:app", name="serve", help="Run the event service.")
app.command("recado.cli.token:app", name="token", help="Make, list and revoke the tokens of a service.")
app.command("recado.cli.backup:app", name="backup", help="Copy the data of a service, also while it runs.")
app.command("recado.cli.pub:app", name="pub", help="Publish events.")
app.command("recado.cli.sub:app", name="sub", help="Subscribe, and show what comes.")
app.command("recado.cli.replay:app", name="replay", help="Show events of the service's log.")
app.command("recado.cli.session:app", name="session", help="List, show and end sessions.")
app.command("recado.cli.mailbox:app", name="mailbox", help="List, peek into, drain and purge mailboxes.")
app.command("recado.cli.subscription:app", name="subscription", help="List, renew and cancel subscriptions.")
app.command("recado.cli.context:app", name="context", help="Name services, and choose one.")
app.command("recado.cli.semantics.app:app", name="semantics", help="Understand names: compare, align, add languages.")
app.command("recado.cli.pipeline.app:app", name="pipeline", help="Match and analyse on Spark.")
app.command("recado.cli.node.app:app", name="node", help="Run a node of an overlay, or use one that runs.")
app.command("recado.cli.overlay:app", name="overlay", help="Start, watch and stop many nodes on this machine.")
app.command("recado.cli.sim:app", name="sim", help="Run scenarios of the simulator and draw the results.")
app.command("recado.cli.experiment:app", name="experiment", help="Repeat the experiments of the documents and report.")
app.command("recado.cli.bench:app", name="bench", help="Measure the matching engines on your machine.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        result = app(arguments, exit_on_error=False, print_error=True, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        return BAD_INPUT  # already printed
    except RecadoError as error:
        print(f"recado: {error}", file=sys.stderr)  # noqa: T201
        return BAD_INPUT
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return result if isinstance(result, int) else OK
