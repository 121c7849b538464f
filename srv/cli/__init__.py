"""The command line: main.py finds the verb, verbs.py describes them, each has a module of its own.

A verb speaks RPC methods and nothing else, to the daemon of the folder if there is one and else to
the store, opened in this process (backend.py). What only some verbs need is imported by them.
"""
