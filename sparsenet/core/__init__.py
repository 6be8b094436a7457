"""What every other package stands on: rows of points, checks of arguments, memory, the machine, progress."""
