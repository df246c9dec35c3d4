"""What to run: a layout, its fabric and the site, turned into arguments, environment and container options.

`plan_launch` works out one process for each node of a unit and refuses a combination that breaks a rule of the
recipe; `render` writes them as a command line, docker command, environment file, systemd unit or compose file.
"""

from rackproof.launch.model import Launch, Process, Value
from rackproof.launch.plan import plan_launch
from rackproof.launch.render import FORMATS, render

__all__ = ["FORMATS", "Launch", "Process", "Value", "plan_launch", "render"]
