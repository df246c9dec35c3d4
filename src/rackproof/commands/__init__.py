"""One module a command of `rackproof`. Heavy imports happen inside the commands: `--help` stays instant."""
