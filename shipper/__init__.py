"""Ships a server's logs to an object store.

Runs on the server and imports nothing of gpuferry; standard library only, Python 3.10 and later.
A chunk of lines is kept on the disk before it is sent, and forgotten once the store has been asked
whether it has it: a crash at any point sends the same bytes to the same key again.
"""
