"""Shell completion: of commands and options by click, of ids by what the data files hold."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Completion for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash   rackproof completion bash > ~/.local/share/bash-completion/completions/rackproof
    zsh    rackproof completion zsh > "${fpath[1]}/_rackproof"
    fish   rackproof completion fish > ~/.config/fish/completions/rackproof.fish
    """
    from rackproof.commands.output import say

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "rackproof", "_RACKPROOF_COMPLETE").source()
    say(f"{script.strip()}\n")
    return 0


def hardware_ids(context: click.Context, parameter: click.Parameter, start: str) -> list[CompletionItem]:
    from rackproof import hardware

    return [CompletionItem(name) for name in hardware.known_ids() if name.startswith(start)]


def layout_ids(context: click.Context, parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Layouts that can work, of the hardware that was named before, if any."""
    from rackproof import recipes

    wanted = context.params.get("hardware")
    return [
        CompletionItem(layout.id, help=layout.tier)
        for layout in recipes.load().layouts.values()
        if layout.id.startswith(start) and layout.tier != "rejected" and wanted in (None, layout.hardware)
    ]


def requirement_ids(context: click.Context, parameter: click.Parameter, start: str) -> list[CompletionItem]:
    from rackproof.verdict.catalogue import LAYERS, requirements

    titles = {**dict.fromkeys(LAYERS, ""), **{found.id: found.title for found in requirements().values()}}
    return [CompletionItem(name, help=title) for name, title in titles.items() if name.startswith(start)]
