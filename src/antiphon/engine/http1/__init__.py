"""The HTTP/1.1 client for plain requests to providers; aiohttp sends the others (`request.py`).

`parser.py` reads responses, `response.py` keeps the body of one until it is read, `connection.py`
joins both to a socket, `pool.py` opens, reuses and closes connections, `addresses.py` finds out
where to connect to.
"""
