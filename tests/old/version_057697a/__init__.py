"""How the program of commit 057697a reads and writes messages, as it stood there: newer ones are held against it.

Never edited. Only the imports differ.
"""
