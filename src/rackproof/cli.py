"""The command line. Every way a run can end has its exit code here:

0 accept, 1 reject, 2 undetermined, 3 the tool or its input failed (usage errors too), 4 unsupported.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from rackproof import __version__
from rackproof.commands.completion import completion
from rackproof.commands.control import journal, unlock
from rackproof.commands.deploy import deploy, plan
from rackproof.commands.drift import drift
from rackproof.commands.eligible import eligible
from rackproof.commands.explain import explain
from rackproof.commands.image import image
from rackproof.commands.judge import judge
from rackproof.commands.launch import launch
from rackproof.commands.nightly import nightly
from rackproof.commands.options import State, debug
from rackproof.commands.output import say
from rackproof.commands.parse import parse
from rackproof.commands.probe import probe
from rackproof.commands.recipe import recipe
from rackproof.commands.redact import redact
from rackproof.commands.serve import serve
from rackproof.commands.triage import triage
from rackproof.commands.verify import collect, verify
from rackproof.errors import RackproofError
from rackproof.verdict.report.clean import clean, clean_lines

FAILED = 3


class _Ordered(click.Group):
    """Commands in the order of a job, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_Ordered, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rackproof")
@debug
def cli() -> None:
    """Prove, node by node, that GPU hosts meet the official vLLM recipe baseline for Kimi K3.

    A check that could not look says unknown, and unknown never accepts a node.

    Exit codes: 0 accept, 1 reject, 2 undetermined, 3 the tool or its input failed, 4 unsupported (self-build).
    """


for _command in (
    verify, collect, judge, drift, nightly, redact, eligible, probe, plan, deploy, journal, unlock, image, launch, serve,
    triage, recipe, parse, explain, completion,
):  # fmt: skip
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Never raises, and never returns 1 or 2 for want of a verdict."""
    state = State()
    try:
        code = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="rackproof", standalone_mode=False, obj=state,
        )  # fmt: skip
        return code if isinstance(code, int) else 0
    except (click.Abort, KeyboardInterrupt):
        return _failed("interrupted")
    except click.UsageError as error:
        return _usage(error)
    except click.ClickException as error:
        return _failed(error.format_message())
    except RackproofError as error:
        return _failed(str(error))
    except SystemExit as error:  # click's own answer to a closed pipe, or an inventory file that ends the run
        return _failed(f"ended early ({error.code})")
    except Exception as error:  # the last line of defence: a traceback is no message, and 1 would mean reject
        return _unexpected(error, state)


def _usage(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(f"{error.format_message()}\n", sys.stderr)
        return FAILED
    path = error.ctx.command_path if error.ctx else "rackproof"
    return _failed(f"{error.format_message()}\n  help: {path} --help")


def _unexpected(error: Exception, state: State) -> int:
    if state.debug:
        say(clean_lines(traceback.format_exc(), 100_000) + "\n", sys.stderr)
    advice = "" if state.debug else "; run it again with --debug for the traceback"
    return _failed(f"unexpected {type(error).__name__}: {clean(str(error))}\n  please report this{advice}")


def _failed(message: str) -> int:
    say(f"rackproof: {clean_lines(message)}\n", sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
