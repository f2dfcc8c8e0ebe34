"""The command line: one file per group of commands. Heavy imports happen inside the commands."""
