"""Weights of basic blocks: images of the host and cubins in, instructions of a GPU out.

::

    elf            a file -> its sections and symbols                       ElfSection, ElfSymbol
    line_table     the line table of a cubin -> lines, with inlined calls   LineRow
    machine_code   a cubin -> the basic blocks of a kernel                  Block, Instruction
    loops          the flow between basic blocks -> loops                   NaturalLoop
    host_code      a recorded launch -> the lines of its basic blocks       Places
    weights        all of it -> instructions, and their threads             Executed
"""
