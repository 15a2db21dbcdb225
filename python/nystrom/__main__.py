"""python -m nystrom: the program."""

from _nystrom_program import main

main()
