"""The HTTP/1.1 client for plain requests to providers; aiohttp sends the others.

`parser.py` reads responses; `connection.py` joins it to a socket, and keeps the body of a response
until it is read; `pool.py` decides which requests are plain, and opens, reuses and closes
connections; `addresses.py` finds out where to connect to.
"""
